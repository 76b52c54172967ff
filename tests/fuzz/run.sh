#!/bin/bash
# run.sh BUILD SECONDS [TARGET...]: the fuzz targets in turn for SECONDS in all, always the one that has had the least CPU time so far, at most SLICE
# seconds (300) at a time. Two can run at once. New inputs are kept in BUILD/fuzz/TARGET, what broke a promise in BUILD/fuzz/findings; a line for each
# turn is printed and added to BUILD/fuzz/log.tsv, and at the end one for each target with all its turns:
#   target, CPU seconds, executions, edges reached, inputs kept, turns with findings
# run.sh BUILD 0: only the sums. TIMEOUT: seconds that an input may take, by the clock (60): more where the machine has other work.
set -u
here=$(cd "$(dirname "$0")" && pwd); build=$(cd "$1" && pwd); seconds=$2; shift 2
targets=${*:-gguf attn ops quantize bpe wordpiece unigram text input json npy convert}
share=$((seconds / $(echo $targets | wc -w))); [ $share -lt "${SLICE:=300}" ] || share=$SLICE
[ $share -gt 0 ] || [ "$seconds" = 0 ] || { echo "run.sh: $seconds seconds are too few for: $targets" >&2; exit 2; }
found=$build/fuzz/findings; all=$build/fuzz/log.tsv; mkdir -p "$found"; touch "$all"
python=$build/venv/bin/python; [ -x "$python" ] || python=python3 # with convert/requirements.txt
export UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=allocator_may_return_null=1:malloc_context_size=8:quarantine_size_mb=32
TIMEFORMAT='%U %S'
bad=0

sums() { # of the targets, least CPU time first
    awk -F '\t' -v OFS='\t' -v names="$targets" '
        { s[$1] += $2; runs[$1] += $3; if ($4 > edges[$1]) edges[$1] = $4; kept[$1] = $5; bad[$1] += $6 }
        END { n = split(names, t, " "); for (i = 1; i <= n; i++) print t[i], s[t[i]] + 0, runs[t[i]] + 0, edges[t[i]] + 0, kept[t[i]] + 0, bad[t[i]] + 0 }' \
        "$all" | sort -s -t "$(printf '\t')" -k 2,2n
}

turn() { # target: one turn
    local target=$1 log=$build/fuzz/$1.log runs edges kept rc
    if [ "$target" = convert ]; then
        { time "$python" -B "$here/fuzz_convert.py" --seconds $share --findings "$found" >"$log" 2>&1; } 2>"$log.time"; rc=$?
        read -r runs edges kept <<<"$(sed -n 's/^convert: \([0-9]*\) runs, \([0-9]*\) lines reached, \([0-9]*\) converted.*/\1 \2 \3/p' "$log")"
    else
        local words=$here/words/$target
        case $target in bpe|wordpiece|unigram) words=$here/words/text;; esac
        [ -f "$words" ] && words=-dict=$words || words=-verbosity=1
        mkdir -p "$build/fuzz/$target"
        { time "$build/bin/fuzz-$target" -max_total_time=$share -timeout=${TIMEOUT:-60} -rss_limit_mb=3000 -max_len=20000 -print_final_stats=1 "$words" \
            -artifact_prefix="$found/$target-" "$build/fuzz/$target" "$here/corpus/$target" >"$log" 2>&1; } 2>"$log.time"; rc=$?
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log"); edges=$(grep -o 'cov: [0-9]*' "$log" | tail -n 1 | cut -c6-)
        kept=$(ls "$build/fuzz/$target" | wc -l)
    fi
    [ $rc = 0 ] || { bad=1; cp "$log" "$found/$target-$$-$SECONDS.log"; grep -m 3 -E 'ERROR: |runtime error|SUMMARY|Traceback|Error' "$log"; echo "    see $log and $found"; }
    printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$target" "$(awk '{print $1 + $2}' "$log.time")" "${runs:-0}" "${edges:-0}" "${kept:-0}" $((rc != 0)) | tee -a "$all"
}

while [ $SECONDS -lt "$seconds" ]; do
    for target in $(sums | cut -f 1); do
        exec 8>"$build/fuzz/$target.lock"
        flock -n 8 && { turn "$target"; exec 8>&-; continue 2; } # another run has it
    done
    sleep 5
done
echo "in all:"
sums
exit $bad
