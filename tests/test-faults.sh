#!/bin/sh
# The programs where the machine fails them: memory that is not there, files that change, kills.
# usage: test-faults.sh PART BIN GOLDEN WORK CHECK   PART: memory, injected, numbers, files, resume, kills. MRA_TEST_KILLS: how many (20)
. "$(dirname "$0")/program-helpers.sh"

memory() {
    "$check" extend "$models/bert.gguf" long.gguf 24000 || exit 1
    words 250 | tr '\n' ' ' >doc.txt; { echo short; cat doc.txt; echo; echo "short again"; } >mixed.txt
    # --max-memory: a text that does not fit fails alone, with the numbers; the others are the same
    embed_with long.gguf -f mixed.txt -o all.jsonl 2>/dev/null; sed 2d all.jsonl >others
    run 3 embed_with long.gguf -f mixed.txt --max-memory 10M; expect "the others are not done, or not the same" cmp -s out others
    says err "line 2: [0-9]* tokens need [0-9.]* MB of memory, the limit is [0-9.]* MB"; says err "1 of 3 records failed"
    run 0 embed_with long.gguf -f mixed.txt --max-memory 500M; expect "--max-memory changes results" cmp -s out all.jsonl
    run 1 embed_with long.gguf -f mixed.txt --max-memory 100K; says err "the model alone takes"; lines err 1
    for v in x 0 -1 5Q 1e30 "" 5MM; do run 2 embed_with long.gguf a --max-memory "$v"; says err "is not a number of bytes"; done
    # less and less address space: results, or a line that says why; never a signal
    whole=0; failed=0
    for kb in $(seq 10000 6000 130000); do
        (ulimit -v "$kb"; exec "$bin/mra-embed" -t 2 -m long.gguf -f mixed.txt) >out 2>err; rc=$?
        case $rc in 0) whole=$((whole + 1));; 1|3|127) failed=$((failed + 1));; esac # 127: the system's loader has none
        expect "$kb kB of address space: exit code $rc" [ $rc = 0 -o $rc = 1 -o $rc = 3 -o $rc = 127 ]
        [ $rc = 0 ] || expect "$kb kB: no word about it" [ -s err ]
    done
    expect "$whole sizes are enough, $failed are not" [ $whole -gt 3 -a $failed -gt 3 ]
}

# fails COMMAND...: with each of its own allocations failing once, and all from one on, it ends by itself; 0 only with the right output
fails() {
    MRA_COUNT_ALLOC=count "$@" >right 2>err </dev/null || { expect "it does not run: $*" false; return; }
    count=$(cat count); k=0; step=$((count / 250 + 1)); worst=0
    while [ $k -lt "$count" ]; do
        k=$((k + step))
        for how in $k $k+; do
            MRA_FAIL_ALLOC=$how "$@" >out 2>err </dev/null; rc=$?
            ok=0
            case $rc in 0) cmp -s out right && ok=1;; 1|3) [ -s err ] && ok=1;; esac
            [ $ok = 1 ] || expect "allocation $how of $count fails: exit code $rc, or another output: $*" false
        done
    done
    n=$((n + count / step))
}

injected() {
    printf '{"id": "a", "text": "one"}\n{"text": "two words", "text_pair": "three"}\n' >in.jsonl; gzip -k in.jsonl
    printf 'id,text\nx,"one, two"\n' >in.csv; words 40 | tr '\n' ' ' >doc.txt; mkdir folder; cp doc.txt in.csv folder
    fails "$bin/mra-embed-inject" -t 1 -m "$models/bert.gguf" -f in.jsonl -f in.csv
    fails "$bin/mra-embed-inject" -t 1 -m "$models/roberta.gguf" -f in.jsonl.gz --format openai
    fails "$bin/mra-embed-inject" -t 1 -m "$models/xlm-roberta.gguf" -f doc.txt --truncate chunk --chunk-tokens 16 --no-mmap
    fails "$bin/mra-embed-inject" -t 1 -m "$models/bert.gguf" --files folder --similarity --truncate right
    fails "$bin/mra-embed-inject" -t 1 -m "$models/bert.gguf" a b -o /dev/null --format csv
    fails "$bin/mra-embed-inject" -t 1 -m "$models/bert.gguf" -f in.jsonl -o x.jsonl --dims 8
    fails "$bin/mra-rerank-inject" -t 1 -m "$models/bert.gguf" -q two -f in.jsonl -k 1
    fails "$bin/mra-fill-mask-inject" -t 1 -m "$models/bert.gguf" "a [MASK]"
    fails "$bin/mra-tokenize-inject" -m "$models/mra.gguf" -f in.csv --json
    fails "$bin/mra-calibrate-inject" -t 1 -m "$models/bert.gguf" -f in.jsonl -o x.imatrix
    fails "$bin/mra-quantize-inject" -q -t 1 "$models/bert.gguf" x.gguf q8_0
}

# a model whose numbers are NaN or overflow: no embedding of it looks like one, whatever the attention; the record is reported
numbers() {
    words 300 | tr '\n' ' ' >doc.txt; "$check" extend "$models/bert.gguf" long.gguf 1500 || exit 1
    reported() { run 3 embed_with "$@" -f doc.txt --truncate right --pooling cls; says err "line 1: the model's result is not a finite number"; expect "an embedding of NaN: $*" [ ! -s out ]; }
    attentions() { # MODEL: cls alone sees the tokens through attention
        reported "$1" --attn exact; for frame in columns sorted mra2 mra2s 64,16,4,1; do reported "$1" --attn mra --frame $frame --budget 1/8; done
    }
    for bits in 7fc00000 7fc00001 ffc00155; do "$check" values long.gguf nan.gguf blk.0.attn_k.bias -1 $bits; attentions nan.gguf; done
    "$check" values long.gguf one.gguf position_embd.weight $((300 * 64 + 5)) 7fc00001; attentions one.gguf # one token of many
    "$check" values long.gguf half.gguf blk.0.attn_q.bias -1 60ad78ec; "$check" values half.gguf huge.gguf blk.0.attn_k.bias -1 60ad78ec; attentions huge.gguf # 1e20
    "$check" values "$models/mra-sparse.gguf" sparse.gguf blk.0.attn_k.bias 3 7fc00001; reported sparse.gguf
    for p in classify fill-mask; do
        "$check" values "$models/roberta.gguf" nan.gguf blk.0.attn_k.bias -1 7fc00001
        run 3 "$bin/mra-$p" -t 1 -m nan.gguf "a <mask>"; says err "the model's result is not a finite number"
    done
}

# waits, at most 20 s, until FILE has something in it
wait_for() { i=0; while [ $i -lt 200 ] && ! [ -s "$1" ]; do sleep 0.1; i=$((i + 1)); done; }

files() {
    # a model that is cut or written again while it is used: one line, exit code 1, whole records
    for how in cut written; do
        cp "$models/bert.gguf" own.gguf; rm -f slow.jsonl go
        (echo first; i=0; while [ $i -lt 200 ] && ! [ -e go ]; do sleep 0.1; i=$((i + 1)); done; echo second) | embed_with own.gguf - -o slow.jsonl 2>err & pid=$!
        wait_for slow.jsonl
        if [ $how = cut ]; then truncate -s 8192 own.gguf; else printf x | dd of=own.gguf bs=1 seek=100000 conv=notrunc 2>/dev/null; fi
        touch go; wait $pid; rc=$?
        expect "model $how while in use: exit code $rc" [ $rc = 3 -o $rc = 1 ]; expect "model $how: whole records" "$check" jsonl slow.jsonl 1
        says err "the model's file was .*cut short\|the model's file was changed while it is in use"
    done
    cp "$models/bert.gguf" own.gguf; rm -f slow.jsonl go
    (echo first; i=0; while [ $i -lt 200 ] && ! [ -e go ]; do sleep 0.1; i=$((i + 1)); done; echo second) | embed_with own.gguf --no-mmap - -o slow.jsonl 2>err & pid=$!
    wait_for slow.jsonl; truncate -s 0 own.gguf; touch go; wait $pid; rc=$?
    expect "--no-mmap: exit code $rc" [ $rc = 0 ]; lines slow.jsonl 2
    # the signal itself, in every program: the line of common/bus.c
    for p in embed classify fill-mask rerank tokenize calibrate; do
        mkfifo pipe; "$bin/mra-$p" -m "$models/mra-sparse.gguf" -f pipe $([ $p = rerank ] && echo "-q a") $([ $p = calibrate ] && echo "-o x.imatrix") >out 2>err & pid=$!
        (sleep 5) >pipe & writer=$!; i=0 # it reads the pipe when it is ready
        while [ $i -lt 100 ] && ! grep -q "mra-sparse" /proc/$pid/maps 2>/dev/null; do sleep 0.05; i=$((i + 1)); done; sleep 0.1
        kill -BUS $pid; wait $pid; rc=$?; kill $writer 2>/dev/null; rm pipe
        expect "mra-$p: SIGBUS ended with $rc" [ $rc = 1 ]; says err "mra-$p: the model's file was cut short or cannot be read any more (SIGBUS); --no-mmap"
    done
    # every program that reads a model takes --no-mmap, with the same result
    for p in embed classify tokenize; do
        run 0 "$bin/mra-$p" -t 1 -m "$models/roberta.gguf" "a b"; cp out mapped; run 0 "$bin/mra-$p" -t 1 -m "$models/roberta.gguf" "a b" --no-mmap; expect "mra-$p --no-mmap" cmp -s out mapped
    done
    run 0 "$bin/mra-fill-mask" -t 1 --no-mmap -m "$models/roberta.gguf" "a <mask>"; run 0 "$bin/mra-rerank" -t 1 --no-mmap -m "$models/roberta.gguf" -q a b
    run 0 "$bin/mra-calibrate" -t 1 --no-mmap -m "$models/bert.gguf" a -o n.imatrix; run 0 "$bin/mra-quantize" -q "$models/bert.gguf" m.gguf q8_0
    run 0 "$bin/mra-quantize" -q --no-mmap "$models/bert.gguf" n.gguf q8_0; expect "mra-quantize --no-mmap" cmp -s m.gguf n.gguf
    run 0 "$bin/mra-bench" model -m "$models/bert.gguf" -n 16 --reps 1 --no-mmap
    # a pipe, a folder, a device, an empty file as model
    mkfifo pipe; run 1 timeout 20 "$bin/mra-embed" -m pipe a; says err "pipe: is not a regular file"; run 1 timeout 20 "$bin/mra-quantize" pipe x.gguf q8_0; says err "is not a regular file"
    run 1 embed_with . a; says err "is a directory"; run 1 embed_with /dev/null a; says err "is not a regular file"; : >empty.gguf; run 1 embed_with empty.gguf a; says err "the file is empty"
    # folders and files that cannot be written
    run 1 embed a -o none/x.jsonl; says err "none/x.jsonl: No such file"; lines err 1
    mkdir closed; chmod 555 closed; if ! touch closed/x 2>/dev/null; then run 1 embed -f doc.txt -o closed/x.jsonl; says err "Permission denied"; lines err 1; fi
    # two runs that write to the same file
    (echo first; i=0; while [ $i -lt 200 ] && ! [ -e go2 ]; do sleep 0.1; i=$((i + 1)); done) | embed - -o shared.jsonl & pid=$!
    wait_for shared.jsonl; run 1 embed a -o shared.jsonl; says err "another run is writing to it"; touch go2; wait $pid; lines shared.jsonl 1
}

resume() {
    words 60 >in.txt; embed -f in.txt >all.jsonl; "$bin/mra-quantize" -q "$models/bert.gguf" q8.gguf q8_0
    # begin: 20 records of an interrupted run
    begin() { rm -f r.jsonl r.jsonl.resume; embed -f in.txt --resume r.jsonl "$@" 2>/dev/null; head -n 20 r.jsonl >cut; cp cut r.jsonl; }
    begin; run 0 embed -f in.txt --resume r.jsonl; expect "resumed" cmp -s r.jsonl all.jsonl; run 0 embed -f in.txt --resume r.jsonl; says err "60 records were finished"; expect "again" cmp -s r.jsonl all.jsonl
    # what does not change results may differ
    begin; run 0 embed -f in.txt --resume r.jsonl -t 2 --batch-tokens 300 --max-memory 500M --no-mmap; expect "other threads" cmp -s r.jsonl all.jsonl
    begin --dims 8 --pooling cls; run 0 embed --pooling cls -f in.txt --dims 8 --resume r.jsonl; lines r.jsonl 60
    # what does is refused, by name, and nothing is touched
    refused() { differs=$1; shift; cp r.jsonl before; run 1 "$@" --resume r.jsonl; says err "--resume r.jsonl: it is of something else.*$differs"; lines err 1; expect "the file was touched" cmp -s r.jsonl before; }
    begin; refused "model: '[0-9a-f]*, [0-9]* bytes', now" embed_with q8.gguf -f in.txt
    "$check" values "$models/bert.gguf" same-size.gguf blk.0.attn_k.bias 3 3f800000; refused "model: '[0-9a-f]*, [0-9]* bytes', now" embed_with same-size.gguf -f in.txt
    refused "options: '', now '--dims 8'" embed -f in.txt --dims 8; refused "now '--pooling cls'" embed -f in.txt --pooling cls; refused "now '--attn mra --budget 1/4'" embed -f in.txt --budget 1/4 --attn mra
    refused "now '--prefix query: '" embed -f in.txt --prefix "query: "; cp in.txt other.txt; refused "input: 'in.txt ([0-9]* bytes)', now 'other.txt" embed -f other.txt
    refused "program: 'mra-embed', now 'mra-tokenize'" tokenize -m "$models/bert.gguf" -f in.txt
    echo more >>in.txt; refused "input: 'in.txt ([0-9]* bytes)', now 'in.txt" embed -f in.txt; words 60 >in.txt
    # without what says of which, damaged, or with records that are there twice
    begin; rm r.jsonl.resume; run 1 embed -f in.txt --resume r.jsonl; says err "there is no r.jsonl.resume"; lines err 1
    begin; echo '{"program": 5' >r.jsonl.resume; run 1 embed -f in.txt --resume r.jsonl; says err "r.jsonl.resume is not what an earlier run has written"; lines err 1
    begin; sed -n 3p r.jsonl >>r.jsonl; run 1 embed -f in.txt --resume r.jsonl; says err "it holds 1 records more than once"; lines err 1
    begin; printf 'junk\n' >>r.jsonl; run 1 embed -f in.txt --resume r.jsonl; says err "its line 21 is not a record of an earlier run"
    begin; sed -n 30p all.jsonl | head -c 200 >>r.jsonl; run 0 embed -f in.txt --resume r.jsonl; expect "a torn line" cmp -s r.jsonl all.jsonl
    begin; head -c 5000 /dev/zero >>r.jsonl; run 0 embed -f in.txt --resume r.jsonl; expect "zeros behind a crash" cmp -s r.jsonl all.jsonl
    # an interrupted -o can be resumed, too; a finished one leaves nothing
    run 0 embed -f in.txt -o done.jsonl; expect "done.jsonl.resume is left" [ ! -e done.jsonl.resume ]
    words 100000 >long.txt; "$check" interrupt o.jsonl "$bin/mra-embed" -t 1 -m "$models/bert.gguf" -f long.txt -o o.jsonl 2>/dev/null; expect "no o.jsonl.resume" [ -s o.jsonl.resume ]
    # chunks: a record of which some are there is done again
    words 300 | tr '\n' ' ' >doc.txt; cat doc.txt doc.txt >/dev/null; { cat doc.txt; echo; cat doc.txt; echo; } >docs.txt
    chunks() { embed -f docs.txt --truncate chunk --chunk-tokens 64 "$@"; }
    chunks >all.jsonl; chunks --resume c.jsonl; k=$(wc -l <c.jsonl); head -n $((k / 2 + 3)) c.jsonl >cut; cp cut c.jsonl; run 0 chunks --resume c.jsonl; expect "chunks" cmp -s c.jsonl all.jsonl
}

kills() { # killed again and again, it gets there, with the same file
    "$check" extend "$models/bert.gguf" long.gguf 4000 || exit 1
    words 3000 | paste -d' ' - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - >in.txt; seq 8 | while read -r i; do cat in.txt; done >docs.txt
    many() { exec "$bin/mra-embed" -t 1 -m long.gguf -f docs.txt --attn exact "$@"; } # exec: the kill is for the program itself
    (many) >all.jsonl 2>/dev/null; wanted=$(wc -l <all.jsonl); k=0; progress=0; last=0
    while [ $k -lt "${MRA_TEST_KILLS:-20}" ]; do
        many --resume r.jsonl 2>/dev/null & pid=$!
        sleep 0.$((2 + k % 3)); kill -9 $pid 2>/dev/null; wait $pid 2>/dev/null; k=$((k + 1))
        have=$(wc -l <r.jsonl); [ "$have" -gt "$last" ] && progress=$((progress + 1)); last=$have
        [ "$have" = "$wanted" ] && { expect "after $k kills another file" cmp -s r.jsonl all.jsonl; rm -f r.jsonl r.jsonl.resume; last=0; }
    done
    expect "$progress of $k kills with progress" [ $progress -ge $((k / 2)) ]
    (many --resume r.jsonl) 2>err; expect "after all $k kills another file" cmp -s r.jsonl all.jsonl
    echo "kills: $k, $progress with progress, $last of $wanted records at the last one"
}

$part
echo "$part: $n checks, $bad failed"
[ $bad = 0 ]
