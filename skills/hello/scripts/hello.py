#!/usr/bin/python3
"""Greets a name in three small files: out/greeting.txt, .json and .csv."""

import json
import os
import sys

name = sys.argv[1] if len(sys.argv) > 1 else "world"
greeting = f"Hello, {name}!"
out = os.environ.get("OUTPUT_DIR", "out")
os.makedirs(out, exist_ok=True)

with open(f"{out}/greeting.txt", "w", encoding="utf-8") as file:
    file.write(greeting + "\n")
with open(f"{out}/greeting.json", "w", encoding="utf-8") as file:
    json.dump({"greeting": greeting, "name": name}, file, ensure_ascii=False)
    file.write("\n")
with open(f"{out}/greeting.csv", "w", encoding="utf-8") as file:
    file.write("name,greeting\n")
    file.write(",".join('"' + field.replace('"', '""') + '"' for field in (name, greeting)) + "\n")

print(f"{greeting} Wrote 3 files.")
