#!/usr/bin/python3
"""Sums a CSV of sales by region, product or month and writes CSV, JSON and an SVG chart to out/."""

import argparse
import csv
import datetime
import io
import json
import math
import os
import re
import sys
from pathlib import Path
from xml.sax.saxutils import escape

COLUMNS = ("date", "region", "product", "units", "unit_price")
SAMPLE = Path(__file__).resolve().parent.parent / "assets" / "sales.csv"
EXIT_NO_INPUT = 2
EXIT_BAD_ROWS = 3
BAD_ROWS_SHOWN = 20


class InputError(Exception):
    """The input as a whole cannot be used."""


class RowError(Exception):
    """One row cannot be used."""

    def __init__(self, line, column, value, expected):
        super().__init__(f"line {line}, column {column}: {value!r} is not {expected}")
        self.record = {"line": line, "column": column, "value": value, "expected": expected}


def main():
    args = parse_arguments()
    # One file after another as they are finished, so that a reader sees progress even through a pipe.
    sys.stdout.reconfigure(line_buffering=True)
    try:
        sales, bad = read_sales(args.csv)
    except InputError as error:
        print(f"report.py: {error}", file=sys.stderr)
        return EXIT_NO_INPUT
    if bad and not args.skip_bad_rows:
        print(
            f"report.py: {args.csv}: {plural(len(bad), 'row')} cannot be read, nothing was written:",
            file=sys.stderr,
        )
        for error in bad[:BAD_ROWS_SHOWN]:
            print(f"  {error}", file=sys.stderr)
        if len(bad) > BAD_ROWS_SHOWN:
            print(f"  and {len(bad) - BAD_ROWS_SHOWN} more", file=sys.stderr)
        print("Mend them, or leave them out with --skip-bad-rows.", file=sys.stderr)
        return EXIT_BAD_ROWS
    if not sales:
        print(
            f"report.py: {args.csv}: no row to sum; a header line and at least one sale are needed",
            file=sys.stderr,
        )
        return EXIT_NO_INPUT
    print(f"read     {plural(len(sales), 'sale')} from {args.csv}" + (f", skipped {len(bad)}" if bad else ""))

    groups = summarize(sales, args.by)
    total = sum(group["cents"] for group in groups)
    print(f"summed   {plural(len(groups), args.by)}, revenue {money(total)}")

    out = Path(os.environ.get("OUTPUT_DIR", "out"))
    out.mkdir(parents=True, exist_ok=True)
    write_csv(out / "summary.csv", groups, total, args.by)
    write_json(out / "summary.json", groups, total, sales, bad, args)
    write_svg(out / "chart.svg", groups, args.title or f"Revenue by {args.by}", sales)
    return 0


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog="report.py",
        description=__doc__,
        epilog="Exit codes: 0 written; 1 could not write; 2 no usable input or wrong arguments; 3 rows that cannot be read.",
    )
    parser.add_argument(
        "csv",
        nargs="?",
        default=os.path.relpath(SAMPLE),
        metavar="CSV",
        help="the sales table, - for standard input (default: the sample in assets/sales.csv)",
    )
    parser.add_argument(
        "--by",
        choices=("region", "product", "month"),
        default="region",
        help="what each bar stands for (default: %(default)s)",
    )
    parser.add_argument("--title", help="title of the chart (default: Revenue by …)")
    parser.add_argument(
        "--skip-bad-rows", action="store_true", help="leave out rows that cannot be read instead of stopping"
    )
    return parser.parse_args()


def read_sales(name):
    """Returns the sales and the errors of the rows that are none."""
    try:
        stream = sys.stdin.buffer if name == "-" else open(name, "rb")
    except OSError as error:
        raise InputError(
            f"{name}: {error.strerror}; name a CSV file, for example inputs/sales.csv"
        ) from error
    with stream:
        try:
            # utf-8-sig, since spreadsheets put a byte order mark first.
            text = stream.read().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(f"{name}: byte {error.start} is not UTF-8; save the table as UTF-8") from error
        except OSError as error:
            raise InputError(f"{name}: {error.strerror}") from error
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    sales, bad = [], []
    try:
        missing = [column for column in COLUMNS if column not in (reader.fieldnames or ())]
        if missing:
            found = ", ".join(reader.fieldnames or ()) or "nothing"
            raise InputError(
                f"{name}: no column {', '.join(missing)}; the header line must name {', '.join(COLUMNS)} and has {found}"
            )
        for row in reader:
            try:
                sales.append(read_sale(row, reader.line_num))
            except RowError as error:
                bad.append(error)
    except csv.Error as error:
        raise InputError(f"{name}: line {reader.line_num + 1}: {error}") from error
    return sales, bad


def read_sale(row, line):
    def field(column, pattern, expected):
        value = (row[column] or "").strip()
        if not re.fullmatch(pattern, value, re.ASCII):
            raise RowError(line, column, value, expected)
        return value

    date = field("date", r"\d{4}-\d{2}-\d{2}", "a date as YYYY-MM-DD")
    try:
        datetime.date.fromisoformat(date)
    except ValueError as error:
        raise RowError(line, "date", date, "a day of the calendar") from error
    region = field("region", r".+", "a name")
    product = field("product", r".+", "a name")
    units = int(field("units", r"\d{1,12}", "a whole number, 0 or more"))
    whole, _, part = field("unit_price", r"\d{1,12}(\.\d{1,2})?", "a price such as 12.50").partition(".")
    cents = int(whole) * 100 + int(part.ljust(2, "0"))
    return {
        "date": date,
        "month": date[:7],
        "region": region,
        "product": product,
        "units": units,
        "cents": cents * units,
    }


def summarize(sales, by):
    groups = {}
    for sale in sales:
        group = groups.setdefault(sale[by], {"name": sale[by], "orders": 0, "units": 0, "cents": 0})
        group["orders"] += 1
        group["units"] += sale["units"]
        group["cents"] += sale["cents"]
    if by == "month":
        return sorted(groups.values(), key=lambda group: group["name"])
    return sorted(groups.values(), key=lambda group: (-group["cents"], group["name"]))


def write_csv(path, groups, total, by):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow((by, "orders", "units", "revenue", "share_percent"))
        for group in groups:
            writer.writerow(
                (
                    group["name"],
                    group["orders"],
                    group["units"],
                    decimal(group["cents"]),
                    share(group["cents"], total),
                )
            )
    wrote(path)


def write_json(path, groups, total, sales, bad, args):
    dates = [sale["date"] for sale in sales]
    document = {
        "by": args.by,
        "from": min(dates),
        "to": max(dates),
        "orders": len(sales),
        "units": sum(sale["units"] for sale in sales),
        "revenue": decimal(total),
        "groups": [
            {
                "name": group["name"],
                "orders": group["orders"],
                "units": group["units"],
                "revenue": decimal(group["cents"]),
                "share_percent": share(group["cents"], total),
            }
            for group in groups
        ],
        "skipped_rows": [error.record for error in bad],
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file, ensure_ascii=False, indent=2)
        file.write("\n")
    wrote(path)


def write_svg(path, groups, title, sales):
    width, left, right, top, bottom = 760, 64, 24, 88, 56
    plot_height = 280
    height = top + plot_height + bottom
    slot = (width - left - right) / len(groups)
    bar = min(slot * 0.62, 96)
    step, ceiling = scale(max(group["cents"] for group in groups))
    dates = [sale["date"] for sale in sales]

    def y(cents):
        return top + plot_height * (1 - cents / ceiling)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif">',
        f"<title>{text(title)}</title>",
        '<defs><linearGradient id="bar" x1="0" y1="0" x2="0" y2="1">'
        '<stop offset="0" stop-color="#3b82f6"/><stop offset="1" stop-color="#1d4ed8"/></linearGradient></defs>',
        f'<rect width="{width}" height="{height}" rx="12" fill="#ffffff"/>',
        f'<text x="{left - 40}" y="38" font-size="20" font-weight="600" fill="#0f172a">{text(title)}</text>',
        f'<text x="{left - 40}" y="60" font-size="13" fill="#64748b">{min(dates)} to {max(dates)} · {plural(len(sales), "order")} · '
        f'{money(sum(sale["cents"] for sale in sales))} in all</text>',
    ]
    for tick in range(0, ceiling + 1, step):
        colour = "#94a3b8" if tick == 0 else "#e2e8f0"
        parts.append(
            f'<line x1="{left}" x2="{width - right}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="{colour}"/>'
        )
        parts.append(
            f'<text x="{left - 10}" y="{y(tick) + 4:.1f}" font-size="12" fill="#64748b" text-anchor="end">{short(tick)}</text>'
        )
    # Names that would run into their neighbours are shortened; the full one is in the tooltip and in the CSV.
    every = math.ceil(44 / slot)
    letters = int(slot * every / 7.2)
    for index, group in enumerate(groups):
        centre = left + slot * (index + 0.5)
        name = group["name"] if len(group["name"]) <= letters else group["name"][: letters - 1] + "…"
        parts.append(
            f'<g><title>{text(group["name"])}: {money(group["cents"])}</title>'
            f'<rect x="{centre - bar / 2:.1f}" y="{y(group["cents"]):.1f}" width="{bar:.1f}" '
            f'height="{top + plot_height - y(group["cents"]):.1f}" rx="{min(4, bar / 4):.1f}" fill="url(#bar)"/>'
        )
        if slot >= 44:
            parts.append(
                f'<text x="{centre:.1f}" y="{y(group["cents"]) - 8:.1f}" font-size="12" font-weight="600" '
                f'fill="#0f172a" text-anchor="middle">{short(group["cents"])}</text>'
            )
        if index % every == 0:
            parts.append(
                f'<text x="{centre:.1f}" y="{top + plot_height + 22}" font-size="13" fill="#334155" '
                f'text-anchor="middle">{text(name)}</text>'
            )
        parts.append("</g>")
    parts.append("</svg>")
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")
    wrote(path)


def scale(largest):
    """A round step between grid lines and the top of the axis, in hundredths."""
    rough = max(largest, 1) / 4
    power = 10 ** math.floor(math.log10(rough))
    step = max(1, int(next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough)))
    return step, max(step, math.ceil(largest / step) * step)


def short(cents):
    amount = cents / 100
    for limit, unit in ((1e9, "bn"), (1e6, "M"), (1e3, "k")):
        if amount >= limit:
            return f"{amount / limit:.1f}".removesuffix(".0") + unit
    return f"{amount:.2f}".removesuffix(".00")


def decimal(cents):
    return f"{cents // 100}.{cents % 100:02}"


def money(cents):
    return f"{cents // 100:,}.{cents % 100:02}"


def share(cents, total):
    return round(100 * cents / total, 1) if total else 0.0


def plural(count, noun):
    return f"{count} {noun}" + ("" if count == 1 else "s")


def text(value):
    # XML has no way to write most control characters.
    return escape("".join(char if char.isprintable() else " " for char in value))


def wrote(path):
    print(f"wrote    {path} ({path.stat().st_size} bytes)")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError as error:
        print(f"report.py: {error.filename or 'output'}: {error.strerror}", file=sys.stderr)
        sys.exit(1)
