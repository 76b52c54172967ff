#!/bin/sh
# The real all-MiniLM-L6-v2: fetched, converted, quantized, and its sentence embeddings against transformers'.
# usage: minilm.sh SOURCE BUILD   (BUILD has bin/ and venv/; models are kept in BUILD/demo)
set -eu
src=$1; build=$2; models=$build/demo # make demo keeps its models there, too
mkdir -p "$models"
[ -f "$models/all-MiniLM-L6-v2/model.safetensors" ] || "$build/venv/bin/python" -B "$src/convert/fetch_minilm.py" "$models/all-MiniLM-L6-v2"
for type in f32 q8_0; do
    "$build/venv/bin/python" -B "$src/convert/convert_hf.py" "$models/all-MiniLM-L6-v2" -o "$models/test-convert-$type.gguf" --type $type
done
for type in f16 q8_0; do "$build/bin/mra-quantize" --quiet "$models/test-convert-f32.gguf" "$models/test-$type.gguf" $type; done
check() { "$build/bin/test-encoder-text" "$src/tests/golden/models" "$models/$1.gguf" "$src/tests/golden/minilm.json" $2 > "$models/test.log" || { cat "$models/test.log"; exit 1; }; tail -n 2 "$models/test.log"; }
check test-convert-f32 0.999999
check test-f16 0.9999
check test-q8_0 0.999
check test-convert-q8_0 0.999
