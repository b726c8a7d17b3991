#!/bin/sh
# Greets a name in three small files: out/greeting.txt, .json and .csv.
# Uses nothing but the shell's own commands, so its time is the sandbox's and the shell's.
set -eu

name=${1:-world}
case $name in
    *[\"\\[:cntrl:]]*)
        echo "hello.sh: a name may not hold quotes, backslashes or control characters; use hello.py for such names" >&2
        exit 2
        ;;
esac

out=${OUTPUT_DIR:-out}
[ -d "$out" ] || mkdir -p "$out"

printf 'Hello, %s!\n' "$name" >"$out/greeting.txt"
printf '{"greeting": "Hello, %s!", "name": "%s"}\n' "$name" "$name" >"$out/greeting.json"
printf 'name,greeting\n"%s","Hello, %s!"\n' "$name" "$name" >"$out/greeting.csv"
printf 'Hello, %s! Wrote 3 files.\n' "$name"
