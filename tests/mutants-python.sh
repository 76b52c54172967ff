#!/bin/sh
# Seeded bugs of the Python package and of embed_shards.py: each line changes one place of a copy; the test it names must then fail, a class
# or a test of test_package.py, with ScaleOut of test_scale_out.py; HostileText and Output are classes of the converter's test_convert_errors.py. Needs the
# venvs that ctest's python-package, scale-out and python-environment made.
# usage: mutants-python.sh SOURCE BUILD [WORD]      mutants-python.sh SOURCE -      only whether every line fits
set -u
src=$(cd "$1" && pwd); only=${3:-}; work=$src; fit=1; log=
if [ "$2" != - ]; then build=$(cd "$2" && pwd); work=$build/mutants-python; fit=0; log=$work/log; fi
. "$src/tests/seeded-bugs.sh"

prepare() {
    rm -rf "$work"; mkdir -p "$work/tests" "$work/ggml-mra" "$work/examples"
    cp -rp "$src/ggml-mra/python" "$work/ggml-mra/"; cp -rp "$src/examples/scale-out" "$work/examples/"
    cp -rp "$src/convert" "$work/"; cp "$src"/tests/test_convert_errors.py "$src/tests/convert_helpers.py" "$work/tests/"
    cp "$src/tests/test_scale_out.py" "$work/tests/"; ln -s "$src/tests/golden" "$work/tests/golden"
}
places() { for f in $1; do echo "$work"/*/*/"$f" "$work"/*/*/ggml_mra/"$f" "$work/convert/$f"; done; }
build_test() { :; }
run_test() {
    case $1 in
        HostileText*|Output*) timeout -k 10 120 "$build/venv/bin/python" -B "$work/tests/test_convert_errors.py" "$1" ;;
        ScaleOut*) timeout -k 10 120 "$build/scale-out/bin/python" -B "$work/tests/test_scale_out.py" "$build/bin" "$1" ;;
        *) PYTHONPATH=$work/ggml-mra/python MRA_PYTHON_LIBRARY=$build/ggml-mra/python/libmra-python.so timeout -k 10 120 \
            "$build/python-package/bin/python" -B "$work/ggml-mra/python/tests/test_package.py" "$build/bin" "$1" ;;
    esac
}

[ $fit = 1 ] || { mkdir -p "$work"; prepare || exit 1; }
seeded_bugs <<'LIST'
Library|_library.py|("start", c.c_uint32), ("end", c.c_uint32)|("end", c.c_uint32), ("start", c.c_uint32)
Library|_library.py|"MRA_OUTPUT_CLASS": 2, "MRA_OUTPUT_MLM": 3|"MRA_OUTPUT_CLASS": 3, "MRA_OUTPUT_MLM": 2
Embeddings.test_the_lock_is_free_while_it_computes|_library.py|c.CDLL(os.fspath|c.PyDLL(os.fspath
Embeddings.test_prompts|_model.py|_bytes(self.prefix, "prompt") +|
Embeddings.test_too_long|_model.py|n > self.limit and not self.truncate|False
Embeddings.test_attention|_model.py|p.attn.budget = self.budget|pass
Embeddings.test_forked_process|_model.py|self._free = [x for x in self._free if x.pid == os.getpid()]|pass
Embeddings.test_estimate|_model.py|context.error_of(i) for i|context.error_of(0) for i
Damaged|_model.py|if not np.isfinite(rows).all()|if False
Embeddings.test_equal_to_the_program|_model.py|(result.n_rows, result.n_cols)).copy()|(result.n_rows, result.n_cols))
Embeddings.test_equal_to_the_program|_encoder.py|n_dims=dims if normalize else 0|n_dims=0
Embeddings.test_precision|_quantize.py|.clip(0, 255)|
Heads.test_cross_encoder|_heads.py|np.argsort(-scores|np.argsort(scores
Heads.test_fill_mask|_heads.py|raw[token.end:]|raw[token.start:]
Heads.test_tokenizer|_tokenizer.py|& 0xC0) != 0x80|& 0xC0) >= 0
ScaleOut.test_embed_dies|embed_shards.py|if rest or self.process.returncode not in (0, 3)|if rest
ScaleOut.test_embed_dies|embed_shards.py|if rest or self.process|if self.process
ScaleOut.test_done_is_done|embed_shards.py|self.model_hash, list(self.options), self.text|self.model_hash, self.text
ScaleOut.test_done_is_done|embed_shards.py|said = [shard, path.stat().st_size,|said = [shard,
ScaleOut.test_done_is_done|embed_shards.py|if out.exists(): return|if False: return
ScaleOut.test_failed_rows_are_kept|embed_shards.py|vectors[i], errors[i] = None,|vectors[i], errors[i] = vectors[i],
ScaleOut.test_parts|embed_shards.py|return shards[i - 1::n]|return shards[i::n]
HostileText.test_what_nobody_foresaw_is_one_line|convert_hf.py|(ValueError, OverflowError, RecursionError, MemoryError)|(ValueError, OverflowError)
HostileText.test_what_nobody_foresaw_is_one_line|convert_hf.py|except OSError as e: # a name|except FileExistsError as e: # a name
HostileText.test_word_length|vocab_json.py|0, MAX_U32, 100|-1, 1 << 70, 100
HostileText.test_lone_surrogates|errors.py|_refuse_surrogates(value, path) return value|return value
LIST
