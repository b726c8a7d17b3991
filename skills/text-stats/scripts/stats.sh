#!/bin/sh
# Counts lines, words, characters, sentences and frequent words of a text into out/stats.tsv.
set -eu

usage() {
    echo "usage: stats.sh [--top N] [FILE]"
    echo "Counts lines, words, characters, sentences and the N (10) most frequent words of FILE or standard input."
}

fail() {
    echo "stats.sh: $1" >&2
    exit 2
}

top=10
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help)
            usage
            exit 0
            ;;
        --top)
            [ $# -ge 2 ] || fail "--top needs a number"
            case $2 in '' | *[!0-9]* | ??????*) fail "--top: '$2' is not a whole number below 100000" ;; esac
            top=$2
            shift 2
            ;;
        --)
            shift
            break
            ;;
        -?*) fail "unknown option '$1'; see --help" ;;
        *) break ;;
    esac
done
[ $# -le 1 ] || fail "one file at a time; got $#"
file=${1:--}
if [ "$file" != - ]; then
    [ -e "$file" ] || fail "$file: no such file; name one such as inputs/essay.txt, or give the text on standard input"
    if [ ! -f "$file" ] || [ ! -r "$file" ]; then fail "$file: not a file that can be read"; fi
fi

out=${OUTPUT_DIR:-out}
[ -d "$out" ] || mkdir -p "$out" || exit 1
scratch=$(mktemp -d "${TMPDIR:-/tmp}/stats.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 143' TERM INT HUP

# The text is read several times, so it is kept once.
if [ "$file" = - ]; then cat >"$scratch/text"; else cat <"$file" >"$scratch/text"; fi

words=$(wc -w <"$scratch/text")
{
    printf 'measure\tvalue\n'
    printf 'lines\t%d\n' "$(wc -l <"$scratch/text")"
    printf 'words\t%d\n' "$words"
    printf 'characters\t%d\n' "$(LC_ALL=C.UTF-8 wc -m <"$scratch/text" 2>/dev/null)"
    printf 'bytes\t%d\n' "$(wc -c <"$scratch/text")"
    # A sentence is a run of text up to a stop, so an abbreviation counts as one too.
    printf 'sentences\t%d\n' "$(tr '\n' ' ' <"$scratch/text" | awk '{ print gsub(/[.!?]+( |$)/, "") }')"
    # 230 words a minute, rounded up to whole seconds.
    printf 'reading_seconds\t%d\n' "$(((words * 60 + 229) / 230))"
    tr '[:upper:]' '[:lower:]' <"$scratch/text" |
        tr -cs "[:alpha:]'\200-\377" '\n' |
        awk 'length($0) > 2 { count[$0]++ } END { for (word in count) print count[word] "\t" word }' |
        LC_ALL=C sort -k1,1nr -k2,2 |
        awk -F '\t' -v top="$top" 'NR <= top { print "word:" $2 "\t" $1 }'
} >"$scratch/stats.tsv"

cp "$scratch/stats.tsv" "$out/stats.tsv" || exit 1
cat "$scratch/stats.tsv"
