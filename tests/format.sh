#!/usr/bin/env bash
# format.sh check|fix: every C and CUDA source as .clang-format says, by clang-format 14 (other versions differ in details).
# check prints the files that differ, and functions of more than 60 lines; exit 77 where that version is not installed.
set -euo pipefail
cd "$(dirname "$0")/.."
tool=
for name in clang-format-14 clang-format; do
    if command -v "$name" >/dev/null && "$name" --version | grep -q 'version 14\.'; then tool=$name; break; fi
done
[ -n "$tool" ] || { echo "skipped: no clang-format 14 (apt-get install clang-format-14)"; exit 77; }

# long_functions FILE: a formatted function starts at the last word in column 0 (labels aside) and ends at the next lone "}" there
long_functions() {
    awk -v most=60 '
        /^[A-Za-z_]/ && !/^[A-Za-z_0-9]+:$/ { first = FNR; name = $0 }
        /^}$/ && first { n = FNR - first + 1; if (n > most) { printf "%s:%d: %d lines: %s\n", FILENAME, first, n, name; bad = 1 } first = 0 }
        END { exit bad }' "$1"
}

differ=0
while IFS= read -r file; do
    if [ "$1" = check ]; then long_functions "$file" || differ=1; fi
    as=$file
    case $file in *.inc) as=${file%.inc}.c;; esac # kernels that every instruction set level includes
    formatted=$("$tool" --style=file --assume-filename="$as" < "$file"; echo .)
    [ "$formatted" = "$(cat "$file"; echo .)" ] && continue
    if [ "$1" = fix ]; then printf '%s' "${formatted%.}" > "$file"; else echo "$file is not formatted"; differ=1; fi
done < <(find ggml-mra examples tests -name golden -prune -o \( -name '*.[ch]' -o -name '*.inc' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' \) -print | sort)
exit $differ
