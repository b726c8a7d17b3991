#!/usr/bin/env python3
"""Writes a small report to out/. Replace the body of make_report with your own work."""

import argparse
import json
import pathlib


def make_report(title):
    return {"title": title, "lines": ["It works."]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--title", default="Report", help="the heading of the report")
    parser.add_argument("--out", default="out", help="the folder for the results")
    options = parser.parse_args()

    report = make_report(options.title)
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    text = "# " + report["title"] + "\n\n" + "\n".join(report["lines"]) + "\n"
    (out / "report.md").write_text(text, encoding="utf-8")
    (out / "report.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(json.dumps({"written": ["report.md", "report.json"]}))


if __name__ == "__main__":
    main()
