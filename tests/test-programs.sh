#!/bin/sh
# The programs as a user runs them: pipes, files, bad lines, interruptions, full disks.
# usage: test-programs.sh PART BIN GOLDEN WORK CHECK   PART: basics, streams, inputs, failures, formats, endings, calibrate, studies, minilm. MRA_TEST_LONG=1: 100,000 lines, too
. "$(dirname "$0")/program-helpers.sh"

basics() {
    for p in embed classify fill-mask rerank tokenize calibrate; do
        run 0 "$bin/mra-$p" --version;         says out "^mra-$p [0-9.]* (ggml [0-9.]*, kernels [a-z]"; lines out 1; silent err
        run 0 "$bin/mra-$p" --help;            says out "^usage: mra-$p"; says out "^examples:"; says out "  3    some records failed"; silent err
        run 2 "$bin/mra-$p" --no-such-option;  says err "mra-$p: unknown option"; lines err 1
        run 2 "$bin/mra-$p";                   says err "mra-$p: no "
    done
    run 0 "$bin/mra-bench" --version;                       says out "^mra-bench [0-9.]* (ggml "
    run 0 "$bin/mra-bench" attn --version;                  says out "^mra-bench attn [0-9.]* (ggml "
    run 2 "$bin/mra-embed" text;                            says err "no model: -m FILE"
    run 1 "$bin/mra-embed" -m none.gguf text;               says err "none.gguf"; lines err 1
    run 1 "$bin/mra-embed" -m "$golden/prose.txt" text;     lines err 1
    run 1 embed -f none.txt;                                says err "none.txt: No such file"
    run 1 embed -f .;                                       says err "is a folder"
    run 2 embed --format xml text;                          says err "'xml' is not one of text|json|jsonl|npy|raw|openai"
    run 2 embed --budget 2 text;                            says err "not a number in"
    run 2 embed -f x text;                                  says err "both -f and texts"
    run 1 embed --dims 65 text;                             says err "embeddings have 64"
    run 1 embed --max-tokens 100000 text;                   says err "positions"
    if ! embed --device cuda text >out 2>err; then          says err "device cuda: no CUDA device"; lines err 1; fi # a machine may have one
    run 0 embed --device auto text;                         lines out 1
    cp "$models/bert.gguf" own.gguf; printf 'a\n' >own.txt
    run 2 embed -f own.txt -o own.txt;                      says err "would overwrite"; expect "own.txt is gone" [ -s own.txt ]
    run 2 embed_with own.gguf a -o own.gguf;       says err "would overwrite"

    run 0 classify -m "$models/roberta.gguf" "a b";             says out "^1	class . *	0\.[0-9]*	class"
    expect "probabilities are not sorted or do not sum to 1" awk '{ exit !($4 >= $7 && $7 >= $10 && $4 + $7 + $10 > .999 && $4 + $7 + $10 < 1.001) }' out
    "$check" key "$models/roberta.gguf" multi.gguf mra.classifier.problem_type multi_label_classification
    run 0 classify -m multi.gguf "a b"; cut -f3,5,7 out >sigmoid; classify -m multi.gguf --logits "a b" | cut -f3,5,7 >logits
    expect "no sigmoid of each label" sh -c 'paste sigmoid logits | awk "{ for (i = 1; i <= 3; i++) { d = \$i - 1/(1 + exp(-\$(i + 3))); if (d*d > 1e-6) exit 1 } }"'
    run 0 classify -m "$models/roberta.gguf" -k 1 --json a b;   lines out 2; expect json "$check" jsonl out 2
    run 0 classify -m "$models/xlm-roberta.gguf" a;             says out "^1	class 0	-*[0-9.]*$"
    run 2 classify -m "$models/roberta.gguf" --truncate chunk a; says err "mra-embed"
    classify -m "$models/roberta.gguf" a --json --logits >single
    run 0 classify -m "$models/roberta.gguf" a --pair b --json --logits; expect "--pair changes nothing" sh -c '! cmp -s out single'
    printf '{"text": "a", "text_pair": "b"}\n' | classify -m "$models/roberta.gguf" --json --logits - | sed 's/"line": 1, //' >pair
    expect "--pair and text_pair differ" cmp -s out pair
    cp out pair; preload=$(dirname "$check")/fail-strdup.so
    [ -e "$preload" ] && { LD_PRELOAD=$preload classify -m "$models/roberta.gguf" a --pair b --json --logits >out 2>err
        expect "a failed strdup encodes without the pair" sh -c 'cmp -s out pair || [ ! -s out ]'; }

    run 0 fill_mask -m "$models/bert.gguf" "a <mask> b [MASK]" -k 3; lines out 6; says out "^1	2	0\.[0-9]*	"
    expect "candidates are not sorted" sh -c 'head -3 out | cut -f3 | sort -rgc && tail -3 out | cut -f3 | sort -rgc'
    run 0 fill_mask -m "$models/roberta.gguf" "a [MASK]" -k 2 --json; expect json "$check" jsonl out 1; says out '"masks"'
    run 3 fill_mask -m "$models/roberta.gguf" "no mask";             says err "argument 1: no <mask>"

    run 0 rerank -m "$models/mra-sparse.gguf" -q a b c d --scores prob; lines out 3; silent err
    expect "not sorted" sh -c 'cut -f1 out | sort -rgc'
    run 0 rerank -m "$models/roberta.gguf" -q a bb "a" cc -k 2;         lines out 2; says err "scores are cosines"; says out "^1.0000	2	a$"
    run 1 rerank -m "$models/roberta.gguf" -q a b --scores prob;        says err "not probabilities"
    words 500 | rerank -m "$models/mra-sparse.gguf" -q line - >all 2>/dev/null
    words 500 | rerank -m "$models/mra-sparse.gguf" -q line -k 3 - >top 2>/dev/null
    head -3 all >all3; expect "--top-k keeps others than the best" cmp -s all3 top

    run 0 tokenize -m "$models/bert.gguf" "a b";     says out "	2	3	"
    run 0 tokenize -m "$models/bert.gguf" --json "a b" "\"c\""; expect json "$check" jsonl out 2
    run 0 tokenize -m "$models/bert.gguf" --count "a b" --prefix "x "; says out "^5$"
}

streams() {
    # texts, lines and JSON Lines give the same embeddings
    embed --format text one "two words" >a 2>err; printf 'one\ntwo words\n' >in.txt; printf '{"text": "one"}\n\n{"id": 7, "text": "two w\\u006frds"}' >in.jsonl
    for how in "-f in.txt" "-f in.jsonl" "--input text -f in.txt"; do
        run 0 embed --format text $how; expect "$how gives other embeddings" cmp -s a out
    done
    embed --format text - <in.txt >out 2>err;              expect "a pipe gives other embeddings" cmp -s a out
    printf 'one\r\ntwo words' | embed --format text >out;  expect "CRLF or no last newline" cmp -s a out
    printf 'one\r\n' | tokenize -m "$models/roberta.gguf" --ids >b; tokenize -m "$models/roberta.gguf" --ids one >out; expect "CRLF where every byte counts" cmp -s b out
    printf '\357\273\277one\n' | tokenize -m "$models/roberta.gguf" --ids >b; tokenize -m "$models/roberta.gguf" --ids one >out; expect "a byte order mark" cmp -s b out
    run 0 embed -f /dev/null; silent out; silent err
    run 0 embed -f in.jsonl; says out '"id": 7, "line": 3, "tokens"'
    printf '{"id": 12345678901234567890, "text": "a"}\n' | embed >out; says out '"id": 12345678901234567890,'
    printf '{"text": "\\ud83d\\ude00\\u00e9\\n"}\n' | tokenize -m "$models/roberta.gguf" --ids >a; printf '{"text": "\360\237\230\200\303\251\\n"}\n' | tokenize -m "$models/roberta.gguf" --ids >b
    expect "\\u escapes" cmp -s a b
    printf '{"id": "x", "text": "a\\u0000b"}\n' | embed --input jsonl >out 2>err; expect "NUL in a text" [ $? = 0 ]

    # one bad line is one bad record
    printf '{"id": "a", "text": "one"}\n{"id": "b", "text": 5}\nnot json\n{"id": "d"}\n{"id": "e", "text": "two"}\n{"text": "x"} y\n' >bad.jsonl
    run 3 embed -f bad.jsonl; expect jsonl "$check" jsonl out 2; says out '^{"id": "e", "line": 5'
    says err 'line 2 (id "b"): "text" is not a string'; says err 'line 3: not JSON'; says err 'line 4 (id "d"): there is no "text"'; says err 'line 6: not JSON'; says err "4 of 6 records failed"

    # ids that could not be written as they came
    printf '{"id": "\377", "text": "a"}\n{"id": true, "text": "a"}\n{"id": 1.5, "text": "a"}\n{"id": [1], "text": "a"}\n{"id": -3, "text": "a"}\n{"id": "\303\251", "text": "a\377"}\n{"id": null, "text": "a"}\n' >ids.jsonl
    run 3 embed -f ids.jsonl --input jsonl --utf8 replace; expect ids "$check" jsonl out 3; says out '^{"id": -3, "line": 5'; says out '^{"line": 7'
    says err 'line 1: "id" is not UTF-8'; says err 'line 2: "id" is neither a string nor a whole number'; says err 'line 3: "id" is neither'; says err 'line 4: "id" is neither'
    rerank -m "$models/roberta.gguf" -q a -f ids.jsonl --input jsonl --utf8 replace --json >out 2>/dev/null; expect "texts that are not UTF-8" "$check" jsonl out 3

    # texts that are not UTF-8
    printf 'good\na\351b\n' >latin.txt; printf 'a\357\277\275b\n' >replaced.txt
    run 3 embed -f latin.txt; lines out 1; lines err 2; says err 'line 2: not UTF-8 at byte 2; --utf8 replace takes U+FFFD for it'
    run 0 tokenize -m "$models/roberta.gguf" --ids -f replaced.txt; mv out want; run 0 tokenize -m "$models/roberta.gguf" --ids -f latin.txt --utf8 replace; sed -n 2p out >b; expect "--utf8 replace" cmp -s b want
    printf '{"text": "a\351b"}\n{"text": "\\ud83d"}\n{"text": "\\ude00\\ud83d"}\n{"text": "\\\\ud83d \\ud83d\\ude00"}\n{"text": "a", "text_pair": "\\ud800"}\n{"text": "a", "text_pair": "b\377"}\n' >surrogates.jsonl
    run 3 classify -m "$models/roberta.gguf" -f surrogates.jsonl; lines out 1; says err 'line 1: not UTF-8 at byte 2;'; says err 'line 2: half a surrogate pair;'; says err 'line 3: half'; says err 'line 5: half'
    says err 'line 6: the second text is not UTF-8 at byte 2;'
    printf '["a\351", "b", "\\udfff"]' >latin.json; run 3 embed -f latin.json; lines out 1; says err 'element 1: not UTF-8 at byte 2'; says err 'element 3: half a surrogate pair'
    printf 'id,text,text_pair\n1,a\351,b\n2\351,a,b\n3,a,b\351\n4,a,b\n' >latin.csv; run 3 embed -f latin.csv; lines out 1; says err 'line 2 (id "1"): not UTF-8'; says err 'line 3: the id is not UTF-8'; says err 'line 4 (id "3"): the second text is not'
    run 3 embed a "$(printf 'b\351')"; lines out 1; says err 'argument 2: not UTF-8 at byte 2'
    for option in --prefix --pair; do run 2 tokenize -m "$models/roberta.gguf" "$option" "$(printf 'b\351')" a; says err "$option: the text is not UTF-8 at byte 2"; done
    run 2 rerank -m "$models/roberta.gguf" -q "$(printf '\351')" a; says err "the text is not UTF-8 at byte 1"

    # the order of the input, whatever the lengths; many lines
    words "${MRA_TEST_LINES:-5000}" >many.txt
    run 0 embed -f many.txt -o many.jsonl --batch-tokens 2000; lines many.jsonl "${MRA_TEST_LINES:-5000}"
    sed 's/.*"line": \([0-9]*\),.*/\1/' many.jsonl >order; seq "${MRA_TEST_LINES:-5000}" >wanted; expect "lines are out of order" cmp -s order wanted
    sed -n '4321s/.*"embedding"/"embedding"/p' many.jsonl >a; sed -n 4321p many.txt | embed - | sed 's/.*"embedding"/"embedding"/' >b; expect "a line in a batch and alone differ" cmp -s a b

    # a slow writer is not made to wait for a full window
    (echo first; i=0; while [ $i -lt 200 ] && ! [ -e go ]; do sleep 0.1; i=$((i + 1)); done; echo second) | embed - >slow &
    i=0; while [ $i -lt 150 ] && ! [ -s slow ]; do sleep 0.1; i=$((i + 1)); done
    lines slow 1; touch go; wait; lines slow 2

    # Ctrl-C, then --resume
    words 300000 >long.txt
    "$check" interrupt cut.jsonl "$bin/mra-embed" -t 1 -m "$models/bert.gguf" -f long.txt -o cut.jsonl --batch-tokens 500 2>err; rc=$?
    expect "SIGINT ended with $rc, not 130" [ $rc = 130 ]; says err "interrupted after"
    k=$(wc -l <cut.jsonl); expect "nothing or everything was done before the interruption" [ "$k" -gt 0 -a "$k" -lt 300000 ]
    expect "interrupted output" "$check" jsonl cut.jsonl "$k"
    mkfifo fifo; (words 10; sleep 20) >fifo & writer=$!
    "$check" interrupt cut10.json "$bin/mra-embed" -t 1 -m "$models/bert.gguf" -f fifo -o cut10.json 2>err; rc=$?; kill $writer 2>/dev/null; rm fifo
    expect "SIGINT while waiting ended with $rc, not 130" [ $rc = 130 ]; expect "cut10.json" "$check" json cut10.json; says err "interrupted after 10 records"
    head -n 300 long.txt >some.txt; run 0 embed -f some.txt --resume cut300.jsonl; head -n 20 cut300.jsonl >cut; cp cut cut300.jsonl; printf '{"line": 21, "tok' >>cut300.jsonl; mv cut300.jsonl cut.jsonl; mv cut300.jsonl.resume cut.jsonl.resume
    run 0 embed -f some.txt --resume cut.jsonl; says err "20 records were finished before"
    embed -f some.txt >all.jsonl 2>err; expect "resumed output differs" cmp -s all.jsonl cut.jsonl
    run 0 embed -f some.txt --resume new.jsonl; expect "--resume without a file" cmp -s all.jsonl new.jsonl
    sed -i 5d new.jsonl; run 0 embed -f some.txt --resume new.jsonl; lines new.jsonl 300; says new.jsonl '"line": 5,'
    printf '{"id": 1, "text": "a"}\n' >x.jsonl; embed -f x.jsonl --resume y.jsonl; sed -i 's/: 1,/: 2,/' x.jsonl; run 1 embed -f x.jsonl --resume y.jsonl; says err "not the same input"
    run 2 embed -f some.txt --resume some.txt; says err "would overwrite"
    run 1 embed -f some.txt --resume long.txt; says err "there is no long.txt.resume that says which model, options and input it is of"
    cp cut.jsonl.resume long.txt.resume; run 1 embed -f some.txt --resume long.txt; says err "not a record of an earlier run"
    run 2 embed -f some.txt --format npy --resume z.npy; says err "exclude"

    # a progress bar on a terminal only
    "$check" pty "$bin/mra-embed" -t 1 -m "$models/bert.gguf" -f many.txt >bar 2>err; rc=$?
    [ $rc = 77 ] || { says bar "records  [0-9.]*/s  ETA"; says bar '\[#*\.*\] '; }
    run 0 embed -f many.txt; silent err
    if [ "${MRA_TEST_LONG:-}" ]; then
        words 1000 >few.txt; words 100000 >lots.txt
        few=$("$check" rss "$bin/mra-embed" -t 1 -m "$models/bert.gguf" -f few.txt -o few.jsonl 2>&1); lots=$("$check" rss "$bin/mra-embed" -t 1 -m "$models/bert.gguf" -f lots.txt -o lots.jsonl 2>&1)
        echo "peak memory: 1000 lines $few kB, 100000 lines $lots kB"; lines lots.jsonl 100000
        expect "memory grows with the input: $few kB, $lots kB" [ "$lots" -lt $((few + few/4)) ]
    fi
}

# same WHAT FILE: the embeddings in ./out are those of FILE
same() { sed 's/.*"embedding"/"embedding"/' out >got; sed 's/.*"embedding"/"embedding"/' "$2" >want; expect "$1 gives other embeddings" cmp -s got want; }

inputs() {
    embed one "two words" three >args; printf 'one\ntwo words\n' >a.txt; printf 'three\n' >b.txt; printf 'one\ntwo words\nthree\n' >ab.txt
    # several files
    run 0 embed -f a.txt -f b.txt; same "-f -f" args; says out '^{"file": "a.txt", "line": 2, "tokens"'; says out '^{"file": "b.txt", "line": 1, "tokens"'
    run 0 embed -f b.txt -f a.txt --format text; embed --format text three one "two words" >want; expect "-f -f: the order" cmp -s out want
    embed -f a.txt -f - <b.txt >out; same "-f and standard input" args
    run 2 embed -f - -f -; says err "only once"; lines err 1
    run 1 embed -f a.txt -f none.txt; says err "none.txt: No such file"; silent out; lines err 1
    run 2 embed -f a.txt -f b.txt -o b.txt; says err "would overwrite"
    run 0 embed -f a.txt -f b.txt --format openai; says out '"index": 2,'
    run 0 rerank -m "$models/roberta.gguf" -q three -f a.txt -f b.txt; says out "^1.0000	b.txt:1	three$"
    printf '{"text": 5}\n' >bad.jsonl; run 3 embed -f a.txt -f bad.jsonl; says err 'bad.jsonl: line 1: "text" is not a string'
    embed -f a.txt -f b.txt --resume r.jsonl; cp r.jsonl whole.jsonl; sed -i 3d r.jsonl
    run 0 embed -f a.txt -f b.txt --resume r.jsonl; says err "2 records were finished before"; expect "resumed: several files" cmp -s r.jsonl whole.jsonl

    # CSV and TSV
    printf '\357\273\277id,body,"n, m"\r\nx1,one,1\r\n\r\n"x""2",two words,"a\r\nb"\r\n"x,3",three,' >c.csv
    for column in body 2; do run 0 embed -f c.csv --column $column; same "--column $column" args; done
    says out '^{"id": "x\\"2", "line": 4, "tokens"'; says out '^{"id": "x,3", "line": 6,'
    run 1 embed -f c.csv; says err "c.csv: --column NAME or N says which of 3 columns is the text: id, body, n, m"; lines err 1; silent out
    run 1 embed -f c.csv --column nobody; says err "no column 'nobody' among 3"
    run 1 embed -f c.csv --column 4; says err "no column '4'"
    printf 'text;id\none;1\ntwo words;2\n"three";3\n' >d.csv; run 0 embed -f d.csv; same "semicolons" args
    printf 'body,id\none,1\n' >p.csv; printf 'id,body\n2,two words\n3,three\n' >q.csv; run 0 embed -f p.csv -f q.csv --column body; same "columns in another order" args
    printf 'id\ttext\n1\tone\n2\ttwo words\n3\tthree\n' >e.tsv; run 0 embed -f e.tsv; same ".tsv" args
    printf 'one\ntwo words\nthree\n' >f.csv; run 0 embed -f f.csv --no-header; same "--no-header" args
    printf 'text,b\n"one\nline",2\n5" disk,3\n"x"y,4\nz\n"open,5\n' >g.csv; run 3 embed -f g.csv; lines out 2; says out '"line": 2,'; says out '"line": 4,'
    says err "line 5: not CSV: something behind a closing quote"; says err "line 6: 1 fields, the first row has 2"; says err "line 7: not CSV: a quoted field without its end"
    printf 'text,text_pair\na,b\n' >h.csv; classify -m "$models/roberta.gguf" a --pair b --logits >want; run 0 classify -m "$models/roberta.gguf" -f h.csv --logits; sed -i 's/^2/1/' out; expect "text_pair of CSV" cmp -s out want
    run 1 embed -f a.txt --column text; says err "needs CSV or JSON"
    run 0 embed --input csv --no-header -f ab.txt; same "--input csv" args
    run 2 embed --column x one; says err "are for -f"

    # JSON arrays, keys with other names
    printf '["one", {"id": "b", "text": "two words"},\n {"text": "thr\\u0065e"}]\n' >a.json; run 0 embed -f a.json; same "a JSON array" args; says out '^{"id": "b", "element": 2, "tokens"'
    run 0 embed -f a.json -f a.json; lines out 6; expect "elements are counted in each file" [ "$(grep -c '"element": 1,' out)" = 2 ]
    embed - <a.json >out; same "a JSON array from a pipe" args
    printf '[\n  {\n    "text": "one"\n  },\n  "two words", "three"\n]\n' >b.json; run 0 embed -f b.json; same "a JSON array in lines" args; embed - <b.json >out; same "[ alone" args
    printf '["one",\n"two words", "three"]' | embed - >out; same "strings over lines" args
    printf '{"text": "one"}\n{"text":\n"two words"} {"text": "three"}' >c.json; run 0 embed -f c.json; same "objects in .json" args
    printf '["one", 5, {"txt": "x"}, ["y"], "\\x"]' >d.json; run 3 embed -f d.json; lines out 1; says err "element 2: neither a string nor an object"; says err 'element 3: there is no "text"'; says err "element 4: neither"; says err "element 5: not JSON: an unknown escape"
    printf '["one"' >cut.json; run 1 embed -f cut.json; says err "cut.json: the end of the file inside the array at byte 7"; lines out 1
    printf '["a\\"],[", "b"]' >quote.json; run 0 embed -f quote.json; lines out 2; silent err
    printf '["one" "two"]' >comma.json; run 1 embed -f comma.json; says err "no comma between two values"
    printf '["one"] "two"' >behind.json; run 1 embed -f behind.json; says err "something behind the array"
    printf '{"text": "one"},\n{"text": "two"}' >objects.json; run 1 small_files embed -f objects.json; says err "a comma outside an array at byte 16"; lines out 1
    printf ']"one"' >closed.json; run 1 small_files embed -f closed.json; says err "a ] without its \["
    printf '{"body": "one"}\n{"body": "two words"}\n{"body": "three"}\n' >k.txt; run 0 embed -f k.txt --column body; same "--column of JSON Lines" args
    run 1 embed -f k.txt; says err 'JSON object without "text": --column'; lines err 1; silent out
    run 0 embed -f k.txt --input text; lines out 3
    printf '[MASK] is text\n["this, too\n' >m.txt; run 0 embed -f m.txt; lines out 2; says out '"line": 2'
    rm -f r.jsonl*; embed -f a.json --resume r.jsonl; cp r.jsonl whole.jsonl; sed -i 3d r.jsonl; run 0 embed -f a.json --resume r.jsonl; expect "resumed: elements" cmp -s r.jsonl whole.jsonl

    # packed files, by content
    gzip -c ab.txt >packed; run 0 embed -f packed; same "gzip" args; embed - <packed >out; same "gzip from a pipe" args
    { gzip -c a.txt; gzip -c b.txt; } >two.gz; run 0 embed -f two.gz; same "two gzip members" args
    printf '(\265/\375\004X\241\000\000one\ntwo words\nthree\n\341\342\237\364' >z.zst; run 0 embed -f z.zst; same "zstd" args
    gzip -c c.csv >c.csv.gz; run 0 embed -f c.csv.gz --column body; same ".csv.gz" args
    head -c 30 packed >cut.gz; run 1 embed -f cut.gz; says err "cut.gz: packed, and cut off"; lines err 1
    { cat packed; echo x; } >tail.gz; run 1 embed -f tail.gz; says err "damaged, or something behind"
    words 3000 >long.txt; gzip -c long.txt >long.gz; embed -f long.txt >want; run 0 embed -f long.gz; expect "a long packed file" cmp -s out want

    # what is not text
    printf 'PAR1\025\004' >x.parquet; run 1 embed -f x.parquet; says err "x.parquet: Parquet is not read here; convert it to JSON Lines"; lines err 1; silent out
    gzip -c x.parquet >y.gz; run 1 embed -f y.gz; says err "Parquet"
    printf 'a\000b\n' >nul.txt; run 1 embed -f nul.txt; says err "nul.txt: not a text file: it holds NUL bytes"; lines err 1; silent out
    run 1 embed -f "$models/bert.gguf"; says err "a model, not text"
    printf '\377\376a\000' >utf16.txt; run 1 embed -f utf16.txt; says err "UTF-16 is not read here"
    printf 'PK\003\004' | embed - >out 2>err; expect "a zip file" [ $? = 1 ]; says err "standard input: a zip file"
    { words 20000; printf 'a\000b\n'; } >late.txt; run 3 tokenize -m "$models/bert.gguf" --count -f late.txt; says err "line 20001: a NUL byte: not text"; lines err 2

    # whole files
    mkdir -p d/sub d/.git; printf 'one\ntwo\r\n' >d/b.txt; printf 'three' >d/sub/a.md; echo no >d/.git/x.txt; ln -s .. d/sub/up
    printf '{"text": "one\\ntwo"}\n{"text": "three"}\n' >d.jsonl; embed -f d.jsonl >want.d
    run 0 embed --files d; same "--files" want.d; says out '^{"id": "d/b.txt", "tokens"'; says out '^{"id": "d/sub/a.md", "tokens"'
    run 0 embed --files d --pattern '*.md' a.txt; lines out 2; says out '^{"id": "d/sub/a.md"'; says out '^{"id": "a.txt"'
    run 0 embed --files d --pattern 'sub/*'; lines out 1
    run 1 embed --files d --pattern '*.rst'; says err "d: no file matches \*.rst"
    run 1 embed --files none; says err "none: No such file"
    run 2 embed --files; says err "no file or folder"
    run 2 embed --pattern x one; says err "needs --files"
    run 1 embed -f d; says err "is a folder; --files takes folders"
    cp nul.txt d/z.bin; gzip -c a.txt >d/a.gz; run 3 embed --files d; lines out 3; says err 'file 4 (id "d/z.bin"): not a text file'; rm d/z.bin d/a.gz
    run 0 embed --files d -o d/out.jsonl; run 2 embed --files d -o d/out.jsonl; says err "d/out.jsonl is one of the files to read"; expect "d/out.jsonl is gone" [ -s d/out.jsonl ]; rm d/out.jsonl
    rm -f r.jsonl*; embed --files d --resume r.jsonl; cp r.jsonl whole.jsonl; sed -i 2d r.jsonl; run 0 embed --files d --resume r.jsonl; says err "1 records were finished"; expect "resumed: files" cmp -s r.jsonl whole.jsonl
}

endings() {
    printf '{"id": "x,\\"1", "text": "one"}\n{"text": "two"}\n' >in.jsonl; embed -f in.jsonl --format npy -o want.npy
    # CSV
    run 0 embed -f in.jsonl -o a.csv --dims 2; lines a.csv 3; says a.csv '^id,e0,e1$'; says a.csv '^"x,""1",[-0-9.]*,[-0-9.]*$'; says a.csv '^2,'
    embed -f in.jsonl --dims 2 --format text | tr ' ' , >want; sed 1d a.csv | sed 's/^"x,""1",//; s/^2,//' >got; expect "numbers of CSV" cmp -s got want
    run 0 embed --format csv --truncate chunk --dims 1 one; says out "^id,chunk,start,end,e0$"; says out "^1,0,0,3,"
    run 3 embed -f in.jsonl --format csv --max-tokens 3; lines out 1
    # npz: a zip file that others can read
    run 0 embed -f in.jsonl -o a.npz; unzip_npz a.npz; expect "embeddings of npz" cmp -s embeddings.npy want.npy
    printf 'x\0\0\0,\0\0\0"\0\0\0001\0\0\0002\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' >want; tail -c 32 ids.npy >got; expect "ids of npz" cmp -s got want; says ids.npy "'descr': '<U4', 'fortran_order': False, 'shape': (2,), }"
    embed -f in.jsonl --format npz >b.npz; expect "npz by redirection" cmp -s a.npz b.npz
    embed --format npz one 2>err | cat >/dev/null; says err "npz needs a file"
    run 0 embed -f /dev/null -o e.npz; unzip_npz e.npz; expect "empty npz" "$check" npy embeddings.npy 0 64
    run 3 embed -f in.jsonl -o n.npz --max-tokens 3; unzip_npz n.npz; expect "npz: rows of nan" [ "$("$check" npy embeddings.npy 2 64)" = 2 ]
    words 3000 >many.txt; (ulimit -f 100; trap '' XFSZ; embed -f many.txt -o full.npz 2>err); rc=$?
    expect "npz: a full disk ended with $rc" [ $rc = 1 ]; says err "cannot write to full.npz"; unzip_npz full.npz
    expect "npz on a full disk has $(wc -c <embeddings.npy) bytes" [ "$(wc -c <embeddings.npy)" -gt 40000 ]
    (ulimit -f 1510; trap '' XFSZ; embed -f many.txt -o full.npz 2>err); rc=$? # room for the rows, not for what follows them
    expect "npz: a disk full at the end ended with $rc" [ $rc = 1 ]; says err "cannot write to full.npz"; unzip_npz full.npz
    # --similarity
    run 0 embed --similarity one two -o s.npy; expect "similarity as npy" "$check" npy s.npy 2 2
    run 0 embed --similarity one two -o s.csv; says s.csv "^id,1,2$"; says s.csv "^1,1.000000,0"; lines s.csv 3
    run 0 embed --similarity one two -o s.json; expect "similarity as json" "$check" json s.json
    run 0 embed --similarity one two -o s.txt; says s.txt "^ 1.0000"
    run 2 embed --similarity one two -o s.npz; says err "s.npz: --similarity writes text, .json, .npy or .csv"; lines err 1
    run 2 embed --similarity one two -o s.npy --json; says err "contradict"
    # endings that say something else
    for name in x.parquet x.tsv x.csv.gz x.xlsx; do run 2 embed one -o $name; says err "$name: no format for this ending"; lines err 1; expect "$name was made" [ ! -e $name ]; done
    for how in "x.csv --format jsonl" "x.npy --format raw" "x.json --json" "x.npz --format npy" "x.txt --format npy"; do run 2 embed one -o $how; says err "says something else than"; lines err 1; done
    run 2 embed -f in.jsonl --resume x.npy; says err "something else than JSON Lines"
    run 0 embed one -o x.json --format openai; run 0 embed one -o x.emb; expect "no known ending" "$check" jsonl x.emb 1
    for name in x.csv x.npy x.json x.gz; do run 2 tokenize -m "$models/bert.gguf" a -o $name; says err "writes text with tabs (.txt, .tsv) or JSON Lines (.jsonl)"; done
    run 2 tokenize -m "$models/bert.gguf" a -o x.tsv --json; says err "JSON Lines: .jsonl"
    run 0 tokenize -m "$models/bert.gguf" a -o x.jsonl; expect ".jsonl without --json" "$check" jsonl x.jsonl 1
    run 2 embed --dry-run one -o x.npy; says err "dry-run writes"
}
# the locator, 42 bytes before the end, says where the 64-bit end record is: Python's zipfile does not look
unzip_npz() {
    rm -f embeddings.npy ids.npy
    expect "$1 is no zip file" python3 -c 'import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; z.extractall()
b = open(sys.argv[1], "rb").read(); at = int.from_bytes(b[-34:-26], "little"); assert b[at:at + 4] == b"PK\6\6"' "$1"
}

failures() {
    # full devices, closed pipes
    words 3000 >many.txt
    if [ -w /dev/full ]; then
        run 1 embed -f many.txt -o /dev/full;  says err "cannot write to /dev/full: No space left"
        embed -f many.txt >/dev/full 2>err;    expect "a full device is exit code 1" [ $? = 1 ]; says err "cannot write to stdout: No space left"
        "$bin/mra-embed" --help >/dev/full 2>err; expect "--help to a full device" [ $? = 1 ]
    fi
    for format in jsonl json npy text openai; do # a file that may not grow: what is there is whole
        (ulimit -f 100; trap '' XFSZ; embed -f many.txt -o "full.$format" --format $format 2>err); rc=$?
        expect "$format: a full disk ended with $rc" [ $rc = 1 ]; says err "cannot write to full.$format"
    done
    expect "full.jsonl" "$check" jsonl full.jsonl "$(wc -l <full.jsonl)"
    expect "full.json"  "$check" json full.json
    expect "full.openai" "$check" json full.openai
    expect "full.npy"   sh -c "'$check' npy full.npy \$(( (\$(wc -c <full.npy) - 128)/256 )) 64"
    for last in "embed -f many.txt" "tokenize -m $models/bert.gguf -f many.txt"; do
        { $last 2>err; echo $? >rc; } | head -1 >first
        lines first 1; silent err; expect "a closed pipe: exit code $(cat rc)" [ "$(cat rc)" = 0 ]
    done

    # texts above the limit
    words 2000 | tr '\n' ' ' >doc.txt
    run 3 embed -f doc.txt; says err "line 1: [0-9]* tokens, the limit is [0-9]*: .*--truncate right or chunk"; silent out
    run 0 embed -f doc.txt --truncate right; lines out 1
    run 0 embed -f doc.txt --truncate chunk --chunk-tokens 32; says out '"chunk": 0, "chunks": [0-9]*, "start": 0, "end": '
    says out "\"end\": $(sed 's/ *$//' doc.txt | tr -d '\n' | wc -c), "
    expect "chunks leave gaps" awk '{ match($0, /"start": [0-9]*/); s = substr($0, RSTART + 9, RLENGTH - 9); match($0, /"end": [0-9]*/); e = substr($0, RSTART + 7, RLENGTH - 7)
        if (s - last > 1 || s < last) exit 1; last = e }' out

    # a very long text: Ctrl-C inside it, and memory for a batch, not for the rows of all its tokens
    { echo short; words 100000 | tr '\n' ' '; echo; } >huge.txt
    "$check" interrupt huge.jsonl "$bin/mra-embed" -t 1 -m "$models/bert.gguf" -f huge.txt --truncate chunk --batch-tokens 1 -o huge.jsonl 2>err; rc=$?
    expect "SIGINT in a long text ended with $rc, not 130" [ $rc = 130 ]; lines huge.jsonl 1
    words 20000 | tr '\n' ' ' >large.txt
    kb=$("$check" rss "$bin/mra-embed" -t 1 -m "$models/bert.gguf" -f large.txt --truncate chunk --chunk-tokens 4096 --batch-tokens 512 -o large.jsonl 2>&1)
    expect "$kb kB for a text of 180,000 tokens" [ "$kb" -lt ${MRA_TEST_RSS:-50000} ]

    # 20,000 tokens in one pass
    "$check" extend "$models/bert.gguf" long.gguf 24000 || exit 1
    words 6000 | tr '\n' ' ' | cut -c1-40000 >book.txt
    tokens=$(tokenize -m long.gguf --count -f book.txt); expect "only $tokens tokens" [ "$tokens" -gt 20000 ]
    run 0 embed_with long.gguf -f book.txt --truncate right;                   says out "\"tokens\": 2[0-9]*,"
    run 0 embed_with long.gguf -f book.txt --truncate right --dry-run;         says out "mra"; says err "GFLOP"
    run 0 embed_with long.gguf --dry-run --json short;                        says out '"attention": "exact"'; expect json "$check" jsonl out 1
    # approximate attention is not silent, and is said once
    cat book.txt book.txt >books.txt
    run 0 embed_with long.gguf -f books.txt --max-tokens 1500 --truncate right; lines err 1; says err "above 1024 tokens attention is approximate (sorted, budget 0.375); --attn exact"
    expect json "$check" jsonl out 2; says out '"attention": "sorted, budget 0.375"}$'
    run 0 embed_with long.gguf -f books.txt --max-tokens 1500 --truncate right --attn exact; silent err; says out '"attention": "exact"}$'
    run 0 embed_with long.gguf -f books.txt --max-tokens 1500 --truncate right --attn mra --budget 1/4; silent err; says out '"attention": "columns, budget 0.25"}$'
    run 0 embed_with "$models/mra.gguf" "a b"; silent err; says out '"attention": "exact"}$'
    words 200 | tr '\n' ' ' >short.txt
    # in integers, or in floats where the kernels have none
    run 0 embed_with long.gguf -f short.txt --attn exact --attn-type int8 --verify -v; says out '"attention": "exact\(, \(int8\|int16\|bf16\)\)\?",'; says err "attention in \(int8\|int16\|bf16\|float\)"
    MRA_ISA=base run 0 embed_with long.gguf -f short.txt --attn exact --attn-type int8; lines err 1; says err "--attn-type int8: kernels base have none"; says out '"attention": "exact"}$'
    MRA_ISA=base run 0 embed_with long.gguf --dry-run --json short --attn-type int8; says out '"attention_type": "float"'
    run 2 embed_with long.gguf short --attn-type int4; says err "int4"
    run 1 embed_with "$models/mra.gguf" "a b" --attn-type int8; says err "not square ones, with which this model was trained"; lines err 1
    # a window is one batch: what is computed is written
    for i in 1 2 3 4 5 6 7 8 9 10 11 12; do cat book.txt; done >shelf.txt
    "$check" interrupt shelf.jsonl "$bin/mra-embed" -t 1 -m long.gguf -f shelf.txt --max-tokens 3000 --truncate right --attn exact --batch-tokens 3000 -o shelf.jsonl 2>err
    expect "$(wc -l <shelf.jsonl) records before the first is written" [ "$(wc -l <shelf.jsonl)" -lt 6 ]
    run 0 embed_with long.gguf -f short.txt --attn mra --budget 1/4 --verify -v; says out '"verify": {"max_error": [0-9.e-]*, "relative_error": '; says err "worst record: max error [0-9.e-]*[1-9]";  says err "feed-forward [0-9]* ms"
    run 0 embed_with long.gguf -f short.txt --attn mra --budget 1/4 --estimate -v; says out '"estimate": {"error": [0-9.e-]*[1-9][0-9.e-]*, "interval": \[[0-9.e-]*, [0-9.e-]*\], "heads_mean": .*"worst": {"layer": 0'
    says err "error of attention, estimated, worst record: all heads [0-9.e-]*[1-9]"; says err "layer  0: 0.[0-9]* "
    run 0 embed_with long.gguf -f short.txt --attn exact --attn-type float --estimate; says out '"estimate": {"error": 0, "interval": \[0, 0\]'; says err "none, it was exact in floats"
    run 0 embed_with long.gguf -f short.txt --attn exact --verify;            says err "max error 0, relative error 0, cosine 1.0"
}

formats() {
    # the tokenizers' goldens: single texts and pairs, an empty one
    for model in bert roberta xlm-roberta mra mra-sparse; do
        "$check" texts "$models/texts.json" $model >texts.jsonl
        run 0 tokenize -m "$models/$model.gguf" -f texts.jsonl --ids --json; expect "tokens of $model" "$check" ids out "$models/texts.json" $model
    done
    run 0 embed --format npy -o a.npy one two three; expect npy "$check" npy a.npy 3 64
    run 0 embed --format raw -o a.raw one two three; expect "raw is not the data of npy" sh -c 'tail -c 768 a.npy | cmp -s - a.raw && [ $(wc -c <a.raw) = 768 ]'
    run 0 embed -o b.npy one two three;              expect "the ending .npy" cmp -s a.npy b.npy
    embed --format npy one two three >c.npy;         expect "npy by redirection" cmp -s a.npy c.npy
    embed --format npy one 2>err | cat >/dev/null;   says err "npy needs a file"
    run 0 embed --format json one two;   expect json "$check" json out
    run 0 embed --format openai one two; expect json "$check" json out; says out '"object": "embedding", "index": 0,'; says out '"index": 1,'; says out '"usage": {"prompt_tokens": [0-9]'
    run 0 embed --format json -f /dev/null; expect "empty json" "$check" json out
    run 0 embed --format openai -f /dev/null; expect "empty openai" "$check" json out
    run 0 embed --format npy -o empty.npy -f /dev/null; expect "empty npy" "$check" npy empty.npy 0 64

    # rows stay in step with lines
    { echo a; words 400 | tr '\n' ' '; echo; echo b; } >mixed.txt
    run 3 embed -f mixed.txt -o mixed.npy; expect "mixed.npy" "$check" npy mixed.npy 3 64; expect "no row of nan" [ "$("$check" npy mixed.npy 3 64)" = 1 ]
    run 3 embed -f mixed.txt --format text; lines out 3; says out "^nan nan"
    run 3 embed -f mixed.txt --format json; expect json "$check" json out

    run 0 embed --similarity one one two; says out "^ 1.0000  1.0000 "; lines out 3
    run 0 embed --similarity one two --json; expect json "$check" json out
    run 0 embed --format text --dims 8 --normalize one; expect "--dims 8 gives $(wc -w <out) numbers" [ "$(wc -w <out)" = 8 ]
    expect "length is not 1" awk '{ for (i = 1; i <= NF; i++) s += $i*$i; exit !(s > .99999 && s < 1.00001) }' out
    run 0 embed --format text --no-normalize one; expect "length is 1" awk '{ for (i = 1; i <= NF; i++) s += $i*$i; exit (s > .99999 && s < 1.00001) }' out
    embed --format npy -o mean.npy --no-normalize --pooling mean "a b"; embed --format npy -o sqrt.npy --no-normalize --pooling mean_sqrt "a b"
    expect "poolings agree" sh -c "! '$check' same mean.npy sqrt.npy 1e-6"
    embed --format npy -o chunk.npy --truncate chunk --no-normalize --pooling mean "a b"; expect "one chunk is not the whole text" "$check" same mean.npy chunk.npy 1e-5
    embed --format npy -o p.npy --prefix "a " --no-normalize --pooling mean b; expect "--prefix" "$check" same mean.npy p.npy 1e-6
}

studies() {
    evaluate() { "$bin/mra-eval" -t 1 -m "$models/bert.gguf" "$@"; }
    inspect() { "$bin/mra-inspect" -t 1 -m "$models/bert.gguf" "$@"; }
    for p in eval inspect; do
        run 0 "$bin/mra-$p" --version;         says out "^mra-$p [0-9.]* (ggml "; lines out 1; silent err
        run 0 "$bin/mra-$p" --help;            says out "^usage: mra-$p"; says out "^examples:"; silent err
        expect "--help has options that are not there" sh -c '! grep -q -e "--resume\|--verify\|--estimate" out'
        run 2 "$bin/mra-$p" --resume x;        says err "unknown option"; lines err 1
        run 2 "$bin/mra-$p";                   says err "mra-$p: no model"
    done
    run 1 "$bin/mra-eval" -m none.gguf a; lines err 1; run 1 "$bin/mra-inspect" -m none.gguf -o a.html a; lines err 1; expect "a page" [ ! -e a.html ]
    words 40 | tr '\n' ' ' >long.txt; words 3 >short.txt
    run 0 evaluate --files long.txt -n 48,64 --budget 1/4,1/2; silent err
    says out "^ *48  mra2  *float  *0.25"; says out "^ *64  exact  *[a-z0-9]*  *-  *1.0000"; says out "error by the entropy"
    expect "12 + 1 settings of two lengths" [ "$(grep -c '^ *[46][84]  [a-z0-9]' out)" = 26 ]
    expect "more work is a larger error" awk '/^ *64  (mra2|columns) / { if (($2 in e) && $6 >= e[$2]) bad = 1; e[$2] = $6 } END { exit bad || !e["mra2"] }' out
    evaluate --files long.txt -n 64 --frame exact --frame columns --budget 1 --json >out 2>err
    expect json "$check" jsonl out $((2 + $(grep -c '"entropy"' out))); expect "exact is not exact" [ "$(grep -c '"study":"error".*"error":0,' out)" = 2 ]
    expect "entropy above log n" awk -F'"entropy":' '/"study":"entropy"/ { split($2, x, ","); if (!(x[1] > 0 && x[1] <= 4.1589)) bad = 1; n++ } END { exit bad || !n }' out
    evaluate --files long.txt -n 64 --frame mra2 --budget 1/4 --json >a 2>err; "$bin/mra-eval" -t 3 -m "$models/bert.gguf" --files long.txt -n 64 --frame mra2 --budget 1/4 --json >b 2>err
    sed 's/"ms":[^,]*//; s/"memory_mb":[^,]*//' a >a.same; sed 's/"ms":[^,]*//; s/"memory_mb":[^,]*//' b >b.same; expect "errors depend on the threads" cmp -s a.same b.same
    run 0 evaluate --files long.txt -n 64 --frame mra2 --budget 1/4 --by-head; says out "text layer  head"
    expect "heads of a layer with one error" awk 'NF == 6 && $1 == 64 { if ($3 " " $6 in e) bad = 1; e[$3 " " $6] = 1; n++ } END { exit bad || n < 4 }' out
    words 6 | tr '\n' ' ' >mid.txt # has 45 tokens
    run 0 evaluate --files mid.txt --files long.txt -n 40,64 --texts 1 --frame mra2 --budget 1/4 --json
    expect "more texts than --texts" [ "$(grep -c '"study":"error".*"texts":1}' out)" = 2 ]
    run 1 evaluate -f short.txt -n 64;                        says err "no text has 64 tokens, the longest has"; lines err 1; silent out
    run 1 evaluate --files long.txt -n 100000;                says err "positions"
    run 2 evaluate --files long.txt --frame 7,3;              says err "--frame: "
    run 2 evaluate --files long.txt -n 64,64;                 says err "twice"
    run 2 evaluate --files long.txt -n 48,64 --capture x.npy; says err "one length"
    run 0 evaluate --files long.txt -n 64 --capture qkv.npy;  says err "qkv.npy: Q, K, V of [0-9]* heads, 64 tokens"; silent out
    run 0 "$bin/mra-bench" attn --qkv qkv.npy -n 64 --frame exact --json -t 1 --reps 1; says out '"n":64'
    evaluate --files long.txt -n 64 --frame mra2 --budget 1/4 --json 2>err | grep -o '"all":[0-9.]*' | cut -d: -f2 >all
    "$bin/mra-bench" attn --qkv qkv.npy -n 64 --frame mra2 --budget 1/4 --json -t 1 --reps 1 2>err | grep -o '"rel_error":[0-9.]*' | cut -d: -f2 >>all
    expect "mra-bench on the captured file has another error: $(tr '\n' ' ' <all)" awk 'NR == 1 { a = $1 } END { exit !(NR == 2 && $1 > 0 && $1/a < 1.01 && $1/a > .99) }' all
    run 1 evaluate --files long.txt -n 64 --capture no/such/folder.npy; says err "cannot write to no/such"; lines err 1
    run 0 "$bin/mra-eval" -m "$golden/families/tinybert.gguf" --files long.txt -n 64 --capture q26.npy; says err "4 heads, 64 tokens, head size 26"
    expect "channels that are not the model's" [ "$(wc -c <q26.npy)" = $((128 + 3 * 4 * 64 * 26 * 4)) ]
    run 0 "$bin/mra-eval" -m "$golden/families/tinybert.gguf" --files long.txt -n 64 --frame mra2 --budget 1/4,1; says out "^ *64  mra2 *float *1 .* 0.0000"

    printf 'a </script><script>alert(1)</script><!-- <b>&amp;</b> \342\200\250 "q" \\ \377 b' >hostile.txt
    run 1 inspect -f hostile.txt -o h.html; says err "mra-inspect: not UTF-8 at byte"; lines err 1
    run 0 inspect -f hostile.txt -o h.html --utf8 replace; silent out; silent err
    expect "the text ends the data" [ "$(grep -o '</script' h.html | wc -l)" = 2 ]; expect "markup of the text" sh -c '! grep -q "alert(1)</\|<!-- <b>" h.html'
    says h.html 'u003c'; says h.html '"frame":"exact"'
    run 0 inspect -f long.txt --attn mra --frame mra2 --budget 1/4 --truncate right -o m.html; says m.html '"frame":"square"'
    run 0 inspect "a b" -o t.html;        expect "above 2 MB" [ "$(wc -c <m.html)" -lt 2000000 ]
    run 2 inspect "a b" "c" -o t2.html;   says err "one text, not 2"
    run 2 inspect "a b";                  says err "no output: -o FILE.html"
    run 2 inspect "a b" -o t.txt;         says err "name it .html"
    run 1 inspect -f none.txt -o e.html;  says err "none.txt: No such file"
    run 1 inspect -f long.txt --max-tokens 20 -o e.html; says err "the limit is 20"; lines err 1
    run 1 inspect "a b" -o no/such/e.html; says err "cannot write to no/such/e.html"
    run 0 "$bin/mra-inspect" -m "$golden/families/tinybert.gguf" "a b" -o t26.html
    ln -s /dev/full full.html; run 1 inspect "a b" -o full.html; says err "cannot write to full.html"; lines err 1
}

calibrate() {
    calibrate_with() { "$bin/mra-calibrate" -t 1 -m "$models/bert.gguf" "$@"; }
    quantize() { "$bin/mra-quantize" "$@"; }
    words 60 >texts.txt
    run 0 calibrate_with -f texts.txt -o a.imatrix; silent out; lines err 1; says err "a.imatrix: 20 matrices over [0-9]* tokens of 60 texts"
    calibrate_with -f texts.txt -o b.imatrix --batch-tokens 100000 2>err; expect "another run gives another file" cmp -s a.imatrix b.imatrix
    embed -f texts.txt --pooling cls --no-normalize -o states.npy; expect "other mean squares" "$check" imatrix a.imatrix "$models/bert.gguf" states.npy
    run 0 quantize "$models/bert.gguf" plain.gguf q4_0; run 0 quantize --imatrix a.imatrix "$models/bert.gguf" weighted.gguf q4_0
    expect "--imatrix changes nothing" sh -c '! cmp -s plain.gguf weighted.gguf'
    run 0 quantize -t 3 --imatrix a.imatrix "$models/bert.gguf" again.gguf q4_0; expect "threads change the file" cmp -s weighted.gguf again.gguf
    run 1 quantize --imatrix none.imatrix "$models/bert.gguf" x.gguf q4_0; says err "none.imatrix"; lines err 1
    run 1 quantize --imatrix "$models/bert.gguf" "$models/bert.gguf" x.gguf q4_0; says err "not made by mra-calibrate"; lines err 1; expect "x.gguf was made" [ ! -e x.gguf ]
    run 2 calibrate_with -f texts.txt; says err "no output: -o FILE"; lines err 1
    run 2 calibrate_with -f texts.txt -o x.csv; says err "this is a GGUF file"
    run 2 calibrate_with -f texts.txt -o x --verify; says err "not for this program"
    run 2 calibrate_with -f texts.txt -o x --estimate; says err "not for this program"
    run 1 calibrate_with -f /dev/null -o x.imatrix; says err "no text was computed"; expect "x.imatrix was made" [ ! -e x.imatrix ]
    run 1 calibrate_with a -o none/x.imatrix; says err "cannot write to none/x.imatrix"; lines err 1
    run 2 calibrate_with a --plan x.plan -o x.imatrix; says err "writes its own file"
    run 2 calibrate_with a --cosine .99; says err "need --plan"
    run 2 calibrate_with a --plan "$models/bert.gguf"; says err "would overwrite the model"
    run 1 calibrate_with -f texts.txt --truncate right --plan x.plan; says err "no text is long enough"; expect "x.plan was made" [ ! -e x.plan ]
    run 1 embed --plan "$models/bert.gguf" a; says err "holds no plan"; lines err 1
    run 2 embed --error .1 --budget 1/4 a; says err "exclude each other"
}

minilm() { # $work/minilm-f16.gguf, as make demo leaves it, or $MRA_TEST_MINILM
    model=${MRA_TEST_MINILM:-$work/minilm-f16.gguf}
    [ -s "$model" ] || { echo "skipped: no $model (make demo gets it)"; exit 77; }
    sed -n 's/^\({"text": .*}\),*$/\1/p' "$golden/minilm.json" >golden.jsonl
    run 0 embed_with "$model" -f golden.jsonl --truncate right -o golden.out.jsonl
    expect "embeddings differ from the reference" "$check" cosine "$golden/minilm.json" golden.out.jsonl 0.999
    [ $bad = 0 ] && "$check" cosine "$golden/minilm.json" golden.out.jsonl 0.999
    run 3 embed_with "$model" -f golden.jsonl; says err "line 13: .* tokens, the limit is 256: --max-tokens up to 512"
}

$part
echo "$part: $n checks, $bad failed"
[ $bad = 0 ]
