# Shared by mutants*.sh, which read it with `.`: puts seeded bugs into a copy of the sources, one at a time, and sees the tests fail.
# Lines: TEST|FILES|FROM|TO. FROM must be in exactly one of FILES (patterns: code moves between files). White space counts
# nowhere; \! is a bar of the source. The first word of TEST is what is built and run; with cpu:FLAG among the others only on a CPU that has this flag.
#
# The script that reads it has functions
#   places FILES        prints the paths of these files, in the sources ($fit = 1) or in the copy
#   build_test TEST     builds TEST from the copy
#   run_test TEST       runs it; fails where it found the bug. May set $why
#   quick_test FILE TEST    optional: a cheaper way to find the bug, tried first; 0: not found
# and variables: log (a file), only (lines that have this word), fit (1: only look whether every line fits).
# In the environment: PART=I/N: each N-th line from the I-th on, so that N processes can share a list; AFTER=N: goes on behind the first N lines of
# its part, where a run was stopped.
part=${PART:-1/1}; after=${AFTER:-0}; n_line=0; n_mine=0
caught=0; not_caught=0; n_other=0; sound=" "; stale=0
command -v perl >/dev/null || { echo "skipped: no perl"; exit 77; }
# files that are put back are compiled again: a compiler cache has them
[ -n "${CMAKE_C_COMPILER_LAUNCHER:-}" ] || ! command -v ccache >/dev/null || export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache

quick_test() { return 0; }

# seed FILE...: FROM -> TO in the one file that has it, whose name is printed; exit code 3: none has, 4: several
seed() {
    perl -e 'my $re = join("\\s*", map quotemeta, $ENV{FROM} =~ /\w+|[^\s\w]/g); my @hit;
        for my $f (@ARGV) { local $/; open(my $h, "<", $f) or next; my $t = <$h>; push @hit, [$f, $t] if $t =~ /$re/; }
        exit(@hit ? 4 : 3) if @hit != 1;
        my ($f, $t) = @{$hit[0]}; $t =~ s/$re/$ENV{TO}/; print $f;
        if ($ENV{WRITE}) { open(my $h, ">", $f) or exit 5; print $h $t; }' "$@"
}

# says WORD TEXT: a row of the table; all but `caught` are failures
says() {
    printf '%-13s %s\n' "$1" "$2"
    if [ "$1" = caught ]; then caught=$((caught + 1)); else not_caught=$((not_caught + 1)); fi
}

# A test that fails on the sources as they are would catch everything: TEST, and FILE with it the cheaper way.
check_sound() {
    case "$sound" in *" $1 "*) ;; *)
        { build_test "$1" && run_test "$1"; } >"$log" 2>&1 </dev/null || { tail "$log"; echo "$1 fails on the sources as they are"; exit 1; }
        sound="$sound$1 " ;;
    esac
    case "$sound" in *" $1:$2 "*) ;; *)
        quick_test "$2" "$1" >"$log" 2>&1 </dev/null || { tail "$log"; echo "$1 alone fails on $2 as it is"; exit 1; }
        sound="$sound$1:$2 " ;;
    esac
}

# seeded_bugs <LIST: prints a line for each; exit code 0: all were caught (or fit)
seeded_bugs() {
    while IFS='|' read -r test files from to; do
        case "$test" in '' | '#'*) continue ;; esac
        case "$test $files" in *"$only"*) ;; *) continue ;; esac
        n_line=$((n_line + 1)); [ $((n_line % ${part#*/})) = $((${part%/*} % ${part#*/})) ] || continue
        n_mine=$((n_mine + 1)); [ $n_mine -gt "$after" ] || continue
        FROM=$(printf %s "$from" | sed 's/\\!/|/g'); TO=$(printf %s "$to" | sed 's/\\!/|/g'); WRITE=; export FROM TO WRITE
        flag=$(printf %s "$test" | sed -n 's/.*cpu:\([a-z0-9_]*\).*/\1/p'); test=${test%% *}
        file=$(seed $(places "$files")) || { says "DOES NOT FIT" "$files: $FROM"; continue; }
        [ "$fit" = 1 ] && continue
        [ -z "$flag" ] || grep -qw "$flag" /proc/cpuinfo || { printf '%-13s %s\n' "not here" "$test: $FROM (this CPU has no $flag)"; n_other=$((n_other + 1)); continue; }
        [ $stale = 0 ] || build_test "$test" >"$log" 2>&1 </dev/null # the cheaper way links what was built last: not with the last bug
        [ "$only" = short ] || check_sound "$test" "$file" # short: a selection in ctest, which runs these tests, too
        cp "$file" "$log.saved"; stale=0
        WRITE=1 seed "$file" >/dev/null
        line="$test: $(basename "$file"): $FROM -> $TO"; why=
        if ! quick_test "$file" "$test" >"$log" 2>&1 </dev/null; then says caught "$line"
        elif stale=1; ! build_test "$test" >"$log" 2>&1 </dev/null; then says "NO BUILD" "$line"
        elif run_test "$test" >"$log" 2>&1 </dev/null; then says SURVIVED "$line"
        else
            says caught "$line"
            [ -z "$why" ] || echo "              by $why"
        fi
        cp "$log.saved" "$file"
    done
    if [ "$fit" = 1 ]; then [ $not_caught -gt 0 ] || echo "every line fits"; else echo "mutants: $caught caught, $not_caught not caught, $n_other for other CPUs"; fi
    [ $not_caught = 0 ]
}
