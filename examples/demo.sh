#!/bin/sh
# make demo: a real model fetched, converted, quantized and run. What is there already is not made again: the second run needs no
# network.
# usage: demo.sh BUILD
set -eu
root=$(cd "$(dirname "$0")/.." && pwd); mkdir -p "$1/demo"; build=$(cd "$1" && pwd)
demo=$build/demo; bin=$build/bin

step() { printf '\n== %s\n' "$1"; }
show() { # the command without folders, then what it prints
    printf '$'
    for word in "$@"; do case $word in /*) printf ' %s' "${word##*/}" ;; *' '*) printf ' "%s"' "$word" ;; *) printf ' %s' "$word" ;; esac; done
    echo; "$@"
}
python() { # with what the converter needs
    [ -f "$build/venv/ready" ] || "$root/.ci/step" "installing the converter's Python packages" "$build/venv.log" sh -ec "
        '$root/.ci/pip-install' '$build/venv' '$root/convert/requirements.txt'
        touch '$build/venv/ready'"
    "$build/venv/bin/python" "$@" > /dev/null
}

step "all-MiniLM-L6-v2: fetch, convert to f16, also with 4096 positions, quantize to q8_0"
folder=$demo/all-MiniLM-L6-v2
f16=$demo/minilm-f16.gguf; long=$demo/minilm-4096-f16.gguf; q8=$demo/minilm-q8_0.gguf
[ -s "$f16" ] && [ -s "$long" ] || [ -s "$folder/model.safetensors" ] || python "$root/convert/fetch_minilm.py" "$folder"
[ -s "$f16" ]  || python "$root/convert/convert_hf.py" "$folder" -o "$f16" --type f16
[ -s "$long" ] || python "$root/convert/convert_hf.py" "$folder" -o "$long" --type f16 --extend-positions 4096
[ -s "$q8" ]   || "$bin/mra-quantize" -q "$f16" "$q8" q8_0
for model in "$f16" "$long" "$q8"; do printf '%s  %s MB\n' "${model##*/}" $(($(wc -c <"$model")/1000000)); done

if [ -x "$bin/program-check" ]; then
    step "its embeddings against the reference (transformers, float64)"
    MRA_TEST_MINILM=$f16 "$root/tests/test-programs.sh" minilm "$bin" "$root/tests/golden" "$demo" "$bin/program-check"
fi

step "similarity of four sentences, f16 and q8_0"
set -- "A man is eating food." "Someone is having a meal." "How do I reset my password?" "To change your password, open the settings."
show "$bin/mra-embed" -m "$f16" --similarity "$@"
show "$bin/mra-embed" -m "$q8"  --similarity "$@"

step "the best answers to a question"
show "$bin/mra-rerank" -m "$q8" -q "Which city is the capital of Germany?" -k 2 \
    "Paris is the capital of France." "Berlin has been the German capital since 1990." "The quick brown fox jumps over the lazy dog." "Munich is a large city in Bavaria."

step "one document of 4096 tokens: exact attention, then MRA with 1/8 and 1/4 of its work, measured against exact"
document=$demo/document.txt
cat "$root/tests/golden/prose.txt" "$root/convert/README.md" "$root"/ggml-mra/include/*.h | tr '\n' ' ' >"$document"
show "$bin/mra-embed" -m "$long" -f "$document" --truncate right --dry-run
show "$bin/mra-embed" -m "$long" -f "$document" --truncate right -o "$demo/exact.jsonl" --attn exact --verbose
for budget in 1/8 1/4; do
    show "$bin/mra-embed" -m "$long" -f "$document" --truncate right -o "$demo/mra.jsonl" --attn mra --budget $budget --verbose --verify
done
echo
echo "The model was trained on 256 tokens with exact attention; its positions are repeated here. So this shows cost and error, not quality."
