"""What the converter writes: names, shapes, values, metadata, for every family and every way a folder can be laid out.

    python -m unittest discover -s tests -p "test_*.py"        (needs convert/requirements.txt)
"""
from __future__ import annotations

import json
import unittest

import numpy as np

from convert_helpers import GOLDEN, FolderTest, edit_json, save_torch
from hf_gguf.torch_file import open_torch

FAMILIES = ("roberta", "xlm-roberta", "camembert", "bert", "mra")
PREFIX = {"bert": "bert.", "mra": "mra."}
LAYER = {
    "attn_q": "attention.self.query", "attn_k": "attention.self.key", "attn_v": "attention.self.value",
    "attn_output": "attention.output.dense", "attn_output_norm": "attention.output.LayerNorm", "ffn_up": "intermediate.dense",
    "ffn_down": "output.dense", "layer_output_norm": "output.LayerNorm",
}


def expected_sources(family: str, head: str) -> dict:
    """GGUF name -> checkpoint name, written down independently of the converter."""
    prefix = PREFIX.get(family, "roberta.") if head != "none" else ""
    pairs = {"token_embd_norm": prefix + "embeddings.LayerNorm"}
    for i in range(2):
        pairs.update({f"blk.{i}.{ours}": f"{prefix}encoder.layer.{i}.{theirs}" for ours, theirs in LAYER.items()})
    bert_names = family in ("bert", "mra")
    names = {"token_embd.weight": "word", "position_embd.weight": "position", "token_types.weight": "token_type"}
    names = {ours: f"{prefix}embeddings.{theirs}_embeddings.weight" for ours, theirs in names.items()}
    if head in ("mlm", "all"):
        pairs["mlm.dense"] = "cls.predictions.transform.dense" if bert_names else "lm_head.dense"
        pairs["mlm.norm"] = "cls.predictions.transform.LayerNorm" if bert_names else "lm_head.layer_norm"
        names["mlm.output.bias"] = "cls.predictions.bias" if bert_names else "lm_head.bias"
    if head in ("classifier", "all"):
        pairs["cls"] = "bert.pooler.dense" if family == "bert" else "classifier.dense"
        pairs["cls.output"] = "classifier" if family == "bert" else "classifier.out_proj"
    for ours, theirs in pairs.items():
        names.update({f"{ours}.{part}": f"{theirs}.{part}" for part in ("weight", "bias")})
    return names


class Families(FolderTest):
    def test_names_shapes_values(self):
        for family in FAMILIES:
            for head in ("none", "mlm", "classifier", "all"):
                with self.subTest(family=family, head=head):
                    source = self.make(family, head)
                    _, tensors, types = self.convert("f32")
                    names = expected_sources(family, head)
                    self.assertEqual(set(tensors), set(names))
                    self.assertEqual(set(types.values()), {"F32"})
                    for ours, theirs in names.items():
                        values = source[theirs]
                        if ours == "position_embd.weight" and family != "bert":
                            values = values[2:]
                        np.testing.assert_array_equal(tensors[ours], values, ours)

    def test_types(self):
        source = self.make("roberta", hidden=64)
        for type_, big in (("f16", "F16"), ("q8_0", "Q8_0")):
            _, tensors, types = self.convert(type_)
            for name, kind in types.items():
                small = tensors[name].ndim == 1 or name in ("position_embd.weight", "token_types.weight", "cls.output.weight")
                self.assertEqual(kind, "F32" if small else "F16" if name.endswith("attn_v.weight") else big, name)
            w = source["roberta.embeddings.word_embeddings.weight"]
            if type_ == "f16":
                np.testing.assert_array_equal(tensors["token_embd.weight"], w.astype(np.float16).astype(np.float32))
            else:  # half a step of each block of 32, and the rounding of its scale to f16
                step = np.abs(w.reshape(-1, 32)).max(1) / 127
                error = np.abs(tensors["token_embd.weight"] - w).reshape(-1, 32).max(1)
                self.assertLess((error / step).max(), 0.5 + 127 * 2**-11)

    def test_rows_that_q8_0_cannot_split_become_f16(self):
        self.make("xlm-roberta", hidden=24, heads=3)
        _, _, types = self.convert("q8_0")
        self.assertEqual(types["blk.0.attn_q.weight"], "F16")
        self.assertEqual(types["blk.0.ffn_down.weight"], "Q8_0")

    def test_metadata(self):
        for family in FAMILIES:
            with self.subTest(family=family):
                self.make(family)
                meta, _, _ = self.convert("f16")
                expected = {
                    "general.architecture": "bert", "general.file_type": 1, "bert.block_count": 2, "bert.context_length": 40,
                    "bert.embedding_length": 32, "bert.feed_forward_length": 64, "bert.vocab_size": 280, "bert.attention.head_count": 2,
                    "bert.attention.causal": False, "bert.pooling_type": 4, "bert.classifier.output_labels": ["class 0", "class 1", "class 2"],
                    "mra.family": family, "mra.activation": "gelu", "mra.mlm.activation": "gelu",
                    "mra.classifier.activation": "gelu" if family == "mra" else "tanh",
                    "mra.classifier.problem_type": "single_label_classification",
                    "tokenizer.ggml.model": {"bert": "bert", "roberta": "gpt2", "mra": "gpt2"}.get(family, "t5"),
                    "tokenizer.ggml.pre": "roberta-bpe" if family in ("roberta", "mra") else "default",
                    "tokenizer.ggml.token_type_count": 2 if family == "bert" else 1,
                    "tokenizer.ggml.add_sep_token": family != "bert", "mra.tokenizer.version": 1,
                    "mra.tokenizer.single.ids": [2, -1, 3] if family == "bert" else [0, -1, 2],
                    "mra.tokenizer.pair.ids": [2, -1, 3, -2, 3] if family == "bert" else [0, -1, 2, 2, -2, 2],
                    "mra.tokenizer.pair.types": [0, 0, 0, 1, 1] if family == "bert" else [0] * 6,
                    "mra.tokenizer.trim_offsets": family in ("roberta", "mra"),
                }
                ids = ("bos", "eos", "cls", "seperator", "unknown", "padding", "mask")
                expected.update({f"tokenizer.ggml.{n}_token_id": i for n, i in
                                 zip(ids, (2, 3, 2, 3, 1, 0, 4) if family == "bert" else (0, 2, 0, 2, 3, 1, 279))})
                for key, value in expected.items():
                    self.assertEqual(meta.get(key), value, key)
                self.assertAlmostEqual(meta["bert.attention.layer_norm_epsilon"] / (1e-12 if family == "bert" else 1e-5), 1, 6)
                self.assertEqual(len(meta["tokenizer.ggml.tokens"]), 280)
                self.assertEqual(len(meta["tokenizer.ggml.token_type"]), 280)
                self.assertEqual("mra.attention.block_per_row" in meta, family == "mra")

    def test_mra_settings(self):
        self.make("mra", "mlm", block_per_row=8, first_n=3, diag_n=1, approx_mode="sparse", positions=64, hidden=64)
        meta, tensors, _ = self.convert()
        for key, value in (("block_per_row", 8), ("approx_mode", "sparse"), ("initial_prior_first_n_blocks", 3),
                           ("initial_prior_diagonal_n_blocks", 1), ("max_position_embeddings", 64)):
            self.assertEqual(meta[f"mra.attention.{key}"], value)
        self.assertEqual(tensors["position_embd.weight"].shape, (64, 64))
        self.assertNotIn("mra.attention.scale", meta)
        self.assertNotIn("bert.pooling_type", meta)

    def test_mra_scale_of_small_heads(self):
        self.make("mra", heads=4)
        self.assertAlmostEqual(self.convert()[0]["mra.attention.scale"], 32**-0.5, 6)

    def test_determinism(self):
        self.make("bert")
        self.convert("q8_0")
        first = self.out.read_bytes()
        self.convert("q8_0")
        self.assertEqual(first, self.out.read_bytes())


class Heads(FolderTest):
    def test_labels_are_ordered_as_numbers(self):
        self.make("roberta", "classifier", labels=12)
        edit_json(self.folder / "config.json", id2label={str(i): f"l{i}" for i in reversed(range(12))}, problem_type="multi_label_classification")
        meta, _, _ = self.convert()
        self.assertEqual(meta["bert.classifier.output_labels"], [f"l{i}" for i in range(12)])
        self.assertEqual(meta["mra.classifier.problem_type"], "multi_label_classification")

    def test_one_label_without_problem_type_is_a_sigmoid(self):
        self.make("bert", "classifier", labels=1)
        self.assertEqual(self.convert()[0]["mra.classifier.problem_type"], "multi_label_classification")
        for given, written in (("single_label_classification", "multi_label_classification"), ("regression", "regression")):
            edit_json(self.folder / "config.json", problem_type=given)
            self.assertEqual(self.convert()[0]["mra.classifier.problem_type"], written)

    def test_decoder_kept_only_if_it_differs(self):
        tensors = self.make("roberta", "mlm")
        tied = tensors["roberta.embeddings.word_embeddings.weight"]
        self.weights({**tensors, "lm_head.decoder.weight": tied})
        self.assertNotIn("mlm.output.weight", self.convert()[1])
        self.weights({**tensors, "lm_head.decoder.weight": tied * 2})
        np.testing.assert_array_equal(self.convert()[1]["mlm.output.weight"], tied * 2)

    def test_decoder_bias_under_its_other_name(self):
        tensors = self.make("bert", "mlm")
        tensors["cls.predictions.decoder.bias"] = tensors.pop("cls.predictions.bias")
        self.weights(tensors)
        np.testing.assert_array_equal(self.convert()[1]["mlm.output.bias"], tensors["cls.predictions.decoder.bias"])

    def test_an_untied_decoder_has_its_own_bias(self):
        tensors = self.make("bert", "mlm")
        words, bias = tensors["bert.embeddings.word_embeddings.weight"], tensors["cls.predictions.bias"]
        edit_json(self.folder / "config.json", tie_word_embeddings=False)
        self.weights({**tensors, "cls.predictions.decoder.weight": words * 2})
        self.assert_refused("missing tensor cls.predictions.decoder.bias")
        self.weights({**tensors, "cls.predictions.decoder.weight": words * 2, "cls.predictions.decoder.bias": bias + 1})
        np.testing.assert_array_equal(self.convert()[1]["mlm.output.bias"], bias + 1)

    def test_no_mlm(self):
        self.make("bert", "mlm")
        meta, tensors, _ = self.convert(mlm=False)
        self.assertFalse([n for n in tensors if n.startswith("mlm.")])
        self.assertNotIn("mra.mlm.activation", meta)

    def test_unused_pooler_and_buffers_are_left_out(self):
        tensors = self.make("bert", "none")
        d = np.zeros((32, 32), np.float32)
        self.weights({**tensors, "pooler.dense.weight": d, "pooler.dense.bias": d[0], "embeddings.position_ids": np.arange(40)[None]})
        self.assertEqual(set(self.convert()[1]), set(expected_sources("bert", "none")))


class Checkpoints(FolderTest):
    def gguf_bytes(self) -> bytes:
        self.convert("f16")
        return self.out.read_bytes()

    def test_files_of_torch_itself(self):
        base = np.arange(24, dtype=np.float32)
        expected = {
            "whole": base.reshape(4, 6), "transposed": base.reshape(4, 6).T, "offset": base[6:18].reshape(3, 4)[:, 1:3],
            "parameter": np.array([0.5, -1.5]), "scalar": np.array(3.25), "half": np.array([1, 0.333251953125, -65504]),
            "bfloat": np.array([1, -3.140625, 1.0002555517425873e30]), "double": np.array([1e-3], np.float32), "ids": np.arange(5),
            "empty": np.zeros((0, 3)),
        }
        for name in ("zip", "legacy"):
            tensors = open_torch(GOLDEN / "torch" / f"{name}.bin")
            self.assertEqual(set(tensors), set(expected))
            for key, values in expected.items():
                self.assertEqual(tensors[key].shape, values.shape)
                np.testing.assert_array_equal(tensors[key].load(), values, f"{name} {key}")

    def test_torch_file_gives_the_same_model(self):
        tensors = self.make("mra")
        expected = self.gguf_bytes()
        save_torch(self.folder / "pytorch_model.bin", tensors)
        (self.folder / "model.safetensors").unlink()
        self.assertEqual(self.gguf_bytes(), expected)

    def test_shards(self):
        tensors = self.make("bert")
        expected = self.gguf_bytes()
        (self.folder / "model.safetensors").rename(self.folder / "whole")
        names = sorted(tensors)
        parts = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
        for part, keys in parts.items():
            self.weights({k: tensors[k] for k in keys})
            (self.folder / "model.safetensors").rename(self.folder / part)
        weight_map = {k: part for part, keys in parts.items() for k in keys}
        (self.folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
        self.assertEqual(self.gguf_bytes(), expected)
        (self.folder / "model-00002-of-00002.safetensors").unlink()
        self.out.unlink()
        self.assert_refused("model-00002-of-00002.safetensors", "no such file")

    def test_bf16(self):
        tensors = self.make("roberta", "none")
        header, data = {}, b""
        for name, values in tensors.items():
            raw = (values.view(np.uint32) >> 16).astype("<u2").tobytes()
            header[name] = {"dtype": "BF16", "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(raw)]}
            data += raw
        text = json.dumps(header).encode()
        (self.folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
        words = tensors["embeddings.word_embeddings.weight"]
        np.testing.assert_array_equal(self.convert()[1]["token_embd.weight"], (words.view(np.uint32) & 0xFFFF0000).view(np.float32))

    def test_prefixes_and_old_norm_names(self):
        tensors = self.make("bert", "none")
        expected = self.convert()[1]
        for prefix in ("bert.", "model.bert."):
            renamed = {prefix + k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v
                       for k, v in tensors.items()}
            self.weights(renamed)
            got = self.convert()[1]
            for name, values in expected.items():
                np.testing.assert_array_equal(got[name], values)


class Positions(FolderTest):
    def test_extended_by_tiling(self):
        source = self.make("roberta", "none")["embeddings.position_embeddings.weight"][2:]
        meta, tensors, _ = self.convert(extend_positions=100)
        np.testing.assert_array_equal(tensors["position_embd.weight"], source[np.arange(100) % 40])
        self.assertEqual((meta["bert.context_length"], meta["mra.trained_context_length"]), (100, 40))

    def test_mra_budget_grows_along(self):
        self.make("mra", "none")
        self.assertEqual(self.convert(extend_positions=128)[0]["mra.attention.max_position_embeddings"], 128)

    def test_fewer_are_refused(self):
        self.make("bert", "none")
        self.assert_refused("--extend-positions 39", args=("--extend-positions", 39))

    def test_padding_token_sets_the_offset(self):
        source = self.make("xlm-roberta", "none")["embeddings.position_embeddings.weight"]
        edit_json(self.folder / "config.json", pad_token_id=4)
        meta, tensors, _ = self.convert()
        np.testing.assert_array_equal(tensors["position_embd.weight"], source[5:])
        self.assertEqual(meta["bert.context_length"], 37)


class SentenceTransformers(FolderTest):
    def modules(self, *kinds: str, **pooling) -> None:
        paths = [("" if i == 0 else f"{i}_{kind}") for i, kind in enumerate(kinds)]
        (self.folder / "modules.json").write_text(json.dumps(
            [{"idx": i, "name": str(i), "path": p, "type": f"sentence_transformers.models.{k}"} for i, (k, p) in enumerate(zip(kinds, paths))]))
        if "Pooling" in kinds:
            (self.folder / "1_Pooling").mkdir(exist_ok=True)
            (self.folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 32, **pooling}))

    def test_pooling_and_normalize(self):
        self.make("bert", "none")
        (self.folder / "sentence_bert_config.json").write_text('{"max_seq_length": 24, "do_lower_case": false}')
        for key, name, number in (("mean_tokens", "mean", 1), ("cls_token", "cls", 2), ("lasttoken", "last", 3), ("max_tokens", "max", None)):
            self.modules("Transformer", "Pooling", "Normalize", **{f"pooling_mode_{key}": True, "pooling_mode_weightedmean_tokens": False})
            meta, _, _ = self.convert()
            self.assertEqual((meta["mra.pooling"], meta.get("bert.pooling_type"), meta["mra.normalize"], meta["mra.max_length"]), (name, number, True, 24))
        self.modules("Transformer", "Pooling", pooling_mode="mean")
        self.assertIs(self.convert()[0]["mra.normalize"], False)

    def test_what_is_not_supported_is_refused(self):
        self.make("bert", "none")
        self.modules("Transformer", "Pooling", "LSTM", pooling_mode_mean_tokens=True)
        self.assert_refused("module LSTM")
        self.modules("Transformer", "Pooling", pooling_mode_mean_tokens=True, pooling_mode_cls_token=True)
        self.assert_refused("mean_tokens + cls_token")


if __name__ == "__main__":
    unittest.main()
