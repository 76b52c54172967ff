#!/bin/sh
# A real model: fetched, converted, quantized, and its sentence embeddings against transformers'.
# usage: real-model.sh SOURCE BUILD minilm|granite   (BUILD has bin/ and venv/; models are kept in BUILD/demo)
set -eu
src=$1; build=$2; which=$3; models=$build/demo # make demo keeps its models there, too
case $which in
    minilm)  folder=$models/all-MiniLM-L6-v2 prefix=test ;;
    granite) folder=$models/granite-embedding-30m-english prefix=test-granite ;;
    *)       echo "real-model.sh: $which: not known" >&2; exit 2 ;;
esac
mkdir -p "$models"
[ -f "$folder/model.safetensors" ] || "$build/venv/bin/python" -B "$src/convert/fetch_$which.py" "$folder"
for type in f32 q8_0; do
    "$build/venv/bin/python" -B "$src/convert/convert_hf.py" "$folder" -o "$models/$prefix-convert-$type.gguf" --type $type
done
for type in f16 q8_0; do "$build/bin/mra-quantize" --quiet "$models/$prefix-convert-f32.gguf" "$models/$prefix-$type.gguf" $type; done
log=$models/$prefix.log
check() { "$build/bin/test-encoder-text" "$src/tests/golden/models" "$models/$1.gguf" "$src/tests/golden/$which.json" $2 > "$log" || { cat "$log"; exit 1; }; tail -n 2 "$log"; }
check $prefix-convert-f32 0.999999
check $prefix-f16 0.9999
check $prefix-q8_0 0.999
check $prefix-convert-q8_0 0.999
