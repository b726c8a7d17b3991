#!/usr/bin/python3
"""Checks prose against the rules of the style guide that a program can judge."""

import argparse
import json
import os
import re
import sys
from pathlib import Path

WORDS_IN_A_SENTENCE = 35
SHORTER = {
    "utilize": "use",
    "utilise": "use",
    "in order to": "to",
    "due to the fact that": "because",
    "prior to": "before",
    "subsequent to": "after",
    "a large number of": "many",
    "at this point in time": "now",
    "in the event that": "if",
}
FILLERS = ("simply", "just", "obviously", "of course", "very", "quite", "basically")
TONE = ("oops", "sorry", "please", "illegal", "invalid input by user")
UNITS = "ns|us|µs|ms|s|min|h|B|kB|MB|GB|TB|KiB|MiB|GiB|TiB|Hz|kHz|MHz|GHz|mm|cm|m|km|g|kg|%|°C"


def any_of(phrases):
    return re.compile(r"\b(" + "|".join(re.escape(phrase) for phrase in phrases) + r")\b", re.IGNORECASE)


# Rule name, what it means, pattern, and the advice for a match.
RULES = (
    (
        "long-word",
        "a shorter word says the same",
        any_of(SHORTER),
        lambda match: f'say "{SHORTER[match[0].lower()]}"',
    ),
    ("filler", "words that only reassure", any_of(FILLERS), lambda match: f'leave out "{match[0]}"'),
    (
        "tone",
        "blaming or pleading",
        any_of(TONE),
        lambda match: f'say what was wrong and what to do, without "{match[0]}"',
    ),
    (
        "doubled-word",
        "the same word twice in a row",
        re.compile(r"\b([A-Za-z]+) \1\b", re.IGNORECASE),
        lambda match: f'"{match[1]}" stands twice',
    ),
    (
        "unit-space",
        "no space between number and unit",
        re.compile(rf"(?<![\w.])(\d+(?:\.\d+)?)({UNITS})(?!\w)"),
        lambda match: f'write "{match[1]} {match[2]}"',
    ),
    (
        "ambiguous-date",
        "a date that can be read two ways",
        re.compile(r"(?<!\d)\d{1,2}/\d{1,2}/\d{4}(?!\d)"),
        lambda match: "write the date as YYYY-MM-DD",
    ),
    (
        "heading-stop",
        "a heading that ends with a full stop",
        re.compile(r"^#{1,6} .*[^.]\.$"),
        lambda match: "end the heading without a full stop",
    ),
)
SENTENCE_RULE = ("long-sentence", f"more than {WORDS_IN_A_SENTENCE} words in a sentence")


def main():
    parser = argparse.ArgumentParser(
        prog="check.py",
        description=__doc__,
        epilog="Exit codes: 0 no finding; 1 findings; 2 wrong arguments or a file that cannot be read.",
    )
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="Markdown or plain text, UTF-8; - is standard input"
    )
    parser.add_argument("--list", action="store_true", help="print the rules and exit")
    args = parser.parse_args()
    if args.list:
        for name, meaning, *_ in (*RULES, SENTENCE_RULE):
            print(f"{name:<16}{meaning}")
        return 0
    if not args.files:
        parser.error("name at least one file, or - for standard input")

    findings = []
    for name in args.files:
        try:
            text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8-sig")
        except OSError as error:
            print(f"check.py: {name}: {error.strerror}", file=sys.stderr)
            return 2
        except UnicodeDecodeError as error:
            print(f"check.py: {name}: byte {error.start} is not UTF-8", file=sys.stderr)
            return 2
        findings += check(name, blank_code(text))
    for finding in findings:
        print("{file}:{line}:{column}: {rule}: {advice}".format(**finding))
    out = Path(os.environ.get("OUTPUT_DIR", "out"))
    out.mkdir(parents=True, exist_ok=True)
    (out / "findings.json").write_text(
        json.dumps(findings, ensure_ascii=False, indent=2) + "\n", encoding="utf-8"
    )
    print(f"findings: {len(findings)}, files: {len(args.files)}")
    return 1 if findings else 0


def blank_code(text):
    """Replaces code by spaces, so that lines and columns stay right."""

    def blank(match):
        return re.sub(r"[^\n]", " ", match[0])

    text = re.sub(r"^```.*?^```[^\n]*$", blank, text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", blank, text)


def check(name, text):
    findings = []

    def add(line, column, rule, advice):
        findings.append({"file": name, "line": line, "column": column, "rule": rule, "advice": advice})

    for number, line in enumerate(text.split("\n"), 1):
        for rule, _, pattern, advice in RULES:
            for match in pattern.finditer(line):
                add(number, match.start() + 1, rule, advice(match))
    # A sentence ends at a stop, at an empty line, and at a heading, list item or table row.
    for match in re.finditer(r"(?:(?!\n\s*\n|\n\s*(?:[-*#|>]|\d+\.)\s)[^.!?]|[.!?](?!\s|$))+", text):
        words = len(re.findall(r"[\w'’-]*\w[\w'’-]*", match[0]))
        if words > WORDS_IN_A_SENTENCE:
            start = match.start() + len(match[0]) - len(match[0].lstrip())
            line = text.count("\n", 0, start) + 1
            column = start - (text.rfind("\n", 0, start) + 1) + 1
            add(line, column, SENTENCE_RULE[0], f"{words} words; split it")
    return sorted(findings, key=lambda finding: (finding["line"], finding["column"]))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError as error:
        print(f"check.py: {error.filename or 'output'}: {error.strerror}", file=sys.stderr)
        sys.exit(2)
