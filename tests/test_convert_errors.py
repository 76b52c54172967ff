"""Whatever is wrong with a folder is one line and exit status 1; nothing in a checkpoint is executed; no half file is left."""
from __future__ import annotations

import io
import json
import os
import pickle
import random
import resource
import subprocess
import sys
import unittest
import unittest.mock
import zipfile
from pathlib import Path

import numpy as np

from convert_helpers import GOLDEN, ROOT, FolderTest, convert_hf, edit_json, save_torch
from hf_gguf.errors import ConvertError
from hf_gguf.torch_file import LEGACY_MAGIC, TensorUnpickler, View, open_torch


class Touch:
    """Unpickled by an ordinary reader, this creates a file."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


class Pickles(FolderTest):
    def setUp(self):
        super().setUp()
        self.tensors = self.make("roberta", "none")
        (self.folder / "model.safetensors").unlink()
        self.trap = self.dir / "trap"

    def test_code_is_not_executed(self):
        save_torch(self.folder / "pytorch_model.bin", self.tensors, {"evil": Touch(self.trap)})
        self.assert_refused("not allowed", f"{os.mkdir.__module__}.mkdir")
        self.assertFalse(self.trap.exists())

    def test_nor_in_the_older_format(self):
        data = b"".join(pickle.dumps(x, 2) for x in (LEGACY_MAGIC, 1001, {"little_endian": True}, {"evil": Touch(self.trap)}, []))
        (self.folder / "pytorch_model.bin").write_bytes(data)
        self.assert_refused("not allowed")
        self.assertFalse(self.trap.exists())

    def test_the_trap_works(self):
        pickle.loads(pickle.dumps(Touch(self.trap)))
        self.assertTrue(self.trap.exists())

    def test_other_names_are_refused(self):
        for name in (b"builtins\neval", b"torch\nload", b"torch._utils\n__import__", b"collections\nnamedtuple", b"torch.nn\nLinear"):
            with self.assertRaisesRegex(ConvertError, "not allowed"):
                TensorUnpickler(io.BytesIO(b"c" + name + b"\n.")).load()

    def test_a_checked_tensor_cannot_be_changed(self):
        # BUILD, the opcode that sets attributes, after _rebuild_tensor_v2 has checked its arguments
        good = (b"ctorch._utils\n_rebuild_tensor_v2\n((S'storage'\nctorch\nFloatStorage\nS'0'\nS'cpu'\nI4\ntQI0\n(I4\nt(I1\ntI00\n(dtR")
        self.assertIsInstance(TensorUnpickler(io.BytesIO(good + b".")).load(), View)
        with self.assertRaises(Exception):
            TensorUnpickler(io.BytesIO(good + b"(dS'offset'\nI1000000\nsb.")).load()

    def test_a_tensor_beyond_its_storage(self):
        for shape, stride, offset in ((b"I5", b"I1", b"I0"), (b"I2", b"I4", b"I0"), (b"I1", b"I1", b"I4"), (b"I1", b"I1", b"I-1"), (b"I2", b"I-1", b"I3")):
            data = (b"ctorch._utils\n_rebuild_tensor_v2\n((S'storage'\nctorch\nFloatStorage\nS'0'\nS'cpu'\nI4\ntQ" + offset + b"\n(" + shape
                    + b"\nt(" + stride + b"\ntI00\n(dtR.")
            with self.assertRaisesRegex(ConvertError, "storage|stride"):
                TensorUnpickler(io.BytesIO(data)).load()

    def test_damaged_archives(self):
        save_torch(self.folder / "pytorch_model.bin", self.tensors)
        whole = (self.folder / "pytorch_model.bin").read_bytes()
        for size in (0, 1, 100, len(whole) // 2, len(whole) - 1):
            (self.folder / "pytorch_model.bin").write_bytes(whole[:size])
            self.assert_refused("pytorch_model.bin")
        with zipfile.ZipFile(self.folder / "pytorch_model.bin", "w") as archive:
            archive.writestr("readme", "hello")
        self.assert_refused("not a PyTorch checkpoint")

    def test_short_storage(self):
        save_torch(self.folder / "pytorch_model.bin", self.tensors)
        with zipfile.ZipFile(self.folder / "pytorch_model.bin") as archive:
            entries = {n: archive.read(n) for n in archive.namelist()}
        for change in (lambda e: e.update({"archive/data/0": e["archive/data/0"][:-4]}), lambda e: e.pop("archive/data/0")):
            changed = dict(entries)
            change(changed)
            with zipfile.ZipFile(self.folder / "pytorch_model.bin", "w") as archive:
                for name, data in changed.items():
                    archive.writestr(name, data)
            self.assert_refused("truncated")


class Folders(FolderTest):
    def test_config(self):
        cases = (
            (dict(architectures=["LlamaForCausalLM"]), "unsupported architecture LlamaForCausalLM"),
            (dict(architectures=["RobertaForQuestionAnswering"]), "unsupported architecture"),
            (dict(architectures=["MPNetForMaskedLM"]), "MPNetForMaskedLM is not supported: its relative position bias"),
            (dict(architectures=["DebertaV2Model"]), "DebertaV2Model is not supported: its attention"),
            (dict(architectures=[], model_type="gpt2"), "model_type 'gpt2'"),
            (dict(hidden_size=33), "hidden_size 33 is not a multiple"),
            (dict(hidden_size="32"), "hidden_size = '32'"),
            (dict(num_hidden_layers=0), "num_hidden_layers"),
            (dict(num_hidden_layers=True), "num_hidden_layers"),
            (dict(num_hidden_layers=1), "not part of the 1 layers"),
            (dict(num_hidden_layers=3), "missing tensor roberta.encoder.layer.2."),
            (dict(vocab_size=281), "has shape [280, 32], config.json says [281, 32]"),
            (dict(intermediate_size=None), "no intermediate_size"),
            (dict(hidden_act="mish"), "hidden_act 'mish'"),
            (dict(position_embedding_type="relative_key"), "position_embedding_type"),
            (dict(is_decoder=True), "is_decoder"),
            (dict(max_position_embeddings=2), "leaves no position"),
            (dict(layer_norm_eps="x"), "layer_norm_eps"),
            (dict(id2label={"0": "a", "1": "b"}), "classifier.out_proj.weight has shape [3, 32]"),
            (dict(id2label={"0": "a", "2": "b"}), "id2label"),
            (dict(id2label=["a"]), "id2label"),
            (dict(problem_type="ranking"), "problem_type 'ranking'"),
        )
        for change, message in cases:
            with self.subTest(message):
                self.make("roberta")
                edit_json(self.folder / "config.json", **change)
                self.assert_refused(message)

    def test_mra_config(self):
        for change, message in ((dict(approx_mode="half"), "approx_mode"), (dict(block_per_row=0), "block_per_row")):
            self.make("mra")
            edit_json(self.folder / "config.json", **change)
            self.assert_refused(message)

    def test_bad_json(self):
        self.make("roberta")
        for text in ("", "{", "[1]", '{"a": 1,}', "[" * 100000):
            (self.folder / "config.json").write_text(text)
            self.assert_refused("config.json")
        (self.folder / "config.json").write_bytes(b'{"a": "\xff"}')
        self.assert_refused("UTF-8")
        (self.folder / "config.json").unlink()
        self.assert_refused("config.json", "no such file")

    def test_missing_tensors(self):
        for name in ("roberta.embeddings.word_embeddings.weight", "roberta.encoder.layer.1.output.LayerNorm.bias", "classifier.dense.weight",
                     "lm_head.layer_norm.weight"):
            tensors = self.make("roberta")
            del tensors[name]
            self.weights(tensors)
            self.assert_refused("missing tensor", name.replace("roberta.embeddings", "embeddings"))

    def test_missing_weights(self):
        self.make("bert")
        (self.folder / "model.safetensors").unlink()
        self.assert_refused("no model.safetensors")

    def test_truncated_safetensors(self):
        self.make("bert", "none")
        path = self.folder / "model.safetensors"
        whole = path.read_bytes()
        for size in (0, 7, 8, 100, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:size])
            self.assert_refused("model.safetensors: truncated")

    def test_bad_safetensors(self):
        self.make("bert", "none")
        for header, message in ((b"{]", "bad JSON"), (b"[]", "bad header"), (b'{"a": 1}', "bad header entry"),
                                (b'{"a": {"dtype": "F8", "shape": [1], "data_offsets": [0, 1]}}', "unsupported type F8"),
                                (b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 8]}}', "8 bytes do not hold"),
                                (b'{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [4, 0]}}', "do not hold")):
            (self.folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(64))
            self.assert_refused(message)

    def test_values_that_cannot_be_stored(self):
        tensors = self.make("bert", "none")
        tensors["embeddings.word_embeddings.weight"][3, 3] = 1e6
        self.weights(tensors)
        self.assert_refused("token_embd.weight does not fit into f16")
        tensors["embeddings.word_embeddings.weight"][3, 3] = np.nan
        self.weights(tensors)
        self.assert_refused("NaN", args=("--type", "f32"))
        tensors["embeddings.word_embeddings.weight"] = np.zeros((280, 32), np.int32)
        self.weights(tensors)
        self.assert_refused("floating-point")


class Output(FolderTest):
    def test_usage(self):
        self.make("bert", "none")
        for args in ((), (self.folder,), (self.folder, "-o"), (self.folder, "-o", self.out, "--type", "q4"), (self.folder, "-o", self.out, "--what"),
                     (self.folder, "-o", self.out, "--extend-positions", "-1"), (self.folder, "-o", self.out, "--extend-positions", "many")):
            self.assertEqual(self.run_main(*args)[0], 2, args)

    def test_success(self):
        self.make("bert", "none")
        status, err = self.run_main(self.folder, "-o", self.out)
        self.assertEqual((status, err), (0, ""))
        self.assertTrue(self.out.is_file())

    def test_target(self):
        self.make("bert", "none")
        target, self.out = self.out, self.dir / "nowhere" / "x.gguf"
        self.assert_refused("x.gguf", "No such file")
        for self.out in (self.dir, Path(os.devnull)):
            self.assert_refused("is not a regular file")
        self.folder, self.out = self.dir / "missing", target
        self.assert_refused("missing: not a folder")

    def test_full_disk(self):
        self.make("bert", "none")
        self.out.write_text("precious")
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        for limit in (100, 20000, 60000):  # inside the metadata, at its end, inside the tensors
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limits[1]))
            try:
                status, err = self.run_main(self.folder, "-o", self.out)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            self.assertEqual((status, err.count("\n")), (1, 1), err)
            self.assertIn("cannot write", err)
            self.assertEqual(self.out.read_text(), "precious")
            self.assertEqual(sorted(p.name for p in self.dir.iterdir()), ["model", "out.gguf"])


class Damage(FolderTest):
    """Random damage to every file of a folder: a clean refusal or a model, never an exception of another kind."""

    def damage(self, path, rng: random.Random, rounds: int) -> None:
        whole = path.read_bytes()
        for _ in range(rounds):
            data = bytearray(whole)
            for _ in range(rng.choice((1, 1, 3, 20))):
                at = rng.randrange(min(len(data), rng.choice((64, 4000, len(data)))))
                data[at] = rng.choice((0, 255, 34, 48, 57, 45, 91, 125, data[at] ^ 1 << rng.randrange(8)))
            if rng.random() < 0.2:
                del data[rng.randrange(len(data)):]
            path.write_bytes(data)
            self.try_convert(path.name)
        path.write_bytes(whole)

    def try_convert(self, what: str) -> None:
        try:
            convert_hf.convert(self.folder, self.out, "f16")
        except ConvertError as e:
            self.assertNotIn("\n", str(e))
        except Exception as e:
            raise AssertionError(f"{what}: {type(e).__name__}: {e}") from e

    def test_random_damage(self):
        rng = random.Random(7)
        for family in ("roberta", "xlm-roberta", "bert"):
            self.make(family, vocab=265)
            for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"):
                self.damage(self.folder / name, rng, 40)

    def test_odd_values_in_json(self):
        """Any value of any JSON file replaced by one of another kind or size."""
        rng = random.Random(9)
        odd = (None, [], {}, "", "\0", -1, 0, 1e308 * 10, float("nan"), 2**70, True, [None], {"a": []}, "x" * 300)

        def spots(node):
            for key in (node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()):
                yield node, key
                yield from spots(node[key])

        for family in ("roberta", "xlm-roberta", "bert", "mra"):
            self.make(family, vocab=265)
            (self.folder / "1_Pooling").mkdir()
            (self.folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
            (self.folder / "modules.json").write_text('[{"path": "", "type": "a.Transformer"}, {"path": "1_Pooling", "type": "a.Pooling"}]')
            (self.folder / "sentence_bert_config.json").write_text('{"max_seq_length": 9, "do_lower_case": false}')
            for path in sorted(self.folder.rglob("*.json")):
                whole = path.read_text(encoding="utf-8")
                n_spots = len(list(spots(json.loads(whole))))
                for i in rng.sample(range(n_spots), min(n_spots, 60)):
                    data = json.loads(whole)
                    node, key = list(spots(data))[i]
                    node[key] = rng.choice(odd)
                    path.write_text(json.dumps(data))
                    self.try_convert(f"{path.name} {key}: {node[key]!r}")
                path.write_text(whole, encoding="utf-8")

    def test_odd_values_in_a_safetensors_header(self):
        self.make("bert", "none", vocab=265)
        path = self.folder / "model.safetensors"
        whole = path.read_bytes()
        n = int.from_bytes(whole[:8], "little")
        for key in ("dtype", "shape", "data_offsets"):
            for value in (None, [], {}, "", -1, [1e309, 1], [2**70, 2**70], ["a"], [[1]], [-4, 4], [True], "F64"):
                header = json.loads(whole[8:8 + n])
                header["embeddings.LayerNorm.bias"][key] = value
                text = json.dumps(header).encode()
                path.write_bytes(len(text).to_bytes(8, "little") + text + whole[8 + n:])
                self.try_convert(f"{key} = {value}")

    def test_random_damage_to_torch_files(self):
        rng = random.Random(8)
        for name in ("zip", "legacy"):
            whole = (GOLDEN / "torch" / f"{name}.bin").read_bytes()
            for _ in range(400):
                data = bytearray(whole)
                for _ in range(rng.choice((1, 2, 8))):
                    data[rng.randrange(len(data))] = rng.randrange(256)
                (self.dir / "x.bin").write_bytes(data)
                try:
                    for tensor in open_torch(self.dir / "x.bin").values():
                        if np.prod(tensor.shape, dtype=float) < 1e6:
                            tensor.load()
                except ConvertError:
                    pass


class HostileText(FolderTest):
    """Numbers and texts that JSON can spell and a file cannot hold."""

    def test_word_length(self):
        for value in ("-1", "1e300", "9223372036854775808", "1.5", "true", '"100"'):
            with self.subTest(value):
                self.make("bert", "none")
                path = self.folder / "tokenizer.json"
                text = path.read_text(encoding="utf-8")
                path.write_text(text.replace('"max_input_chars_per_word": 100', f'"max_input_chars_per_word": {value}'), encoding="utf-8")
                self.assert_refused("model.max_input_chars_per_word = ", "is not a number from 0 to 4294967295")

    def test_lone_surrogates(self):
        self.make("bert", "classifier")
        path = self.folder / "config.json"
        good = path.read_text(encoding="utf-8")
        path.write_text(good.replace("class 1", "class \\ud800"), encoding="utf-8")
        self.assert_refused("config.json", "lone surrogate")
        path.write_text(good, encoding="utf-8")
        path = self.folder / "tokenizer.json"
        path.write_text(path.read_text(encoding="utf-8").replace("[MASK]", "[\\udfff]"), encoding="utf-8")
        self.assert_refused("tokenizer.json", "lone surrogate")

    def test_name(self):
        self.make("bert", "none")
        status, err = self.run_main(self.folder, "-o", self.out, "--name", "a\udc80")
        self.assertEqual(status, 2)
        self.assertIn("is not UTF-8 text", err)
        self.assertNotIn("Traceback", err)

    def test_a_folder_whose_name_is_no_text(self):
        self.make("bert", "none")
        self.folder = self.folder.rename(self.dir / "m\udcff")
        self.assertEqual(self.convert()[0]["general.name"], "m\ufffd")

    def test_nul_in_a_token(self):
        self.make("bert", "none")
        path = self.folder / "tokenizer.json"
        path.write_text(path.read_text(encoding="utf-8").replace("[MASK]", "[\\u0000]"), encoding="utf-8")
        edit_json(self.folder / "tokenizer_config.json", mask_token=None)
        self.assert_refused("NUL")

    def test_long_shard_name(self):
        self.make("bert", "none")
        (self.folder / "model.safetensors").unlink()
        index = self.folder / "model.safetensors.index.json"
        for name, word in (("x" * 5000, "too long"), ("\u00e9" * 200, "too long"), ("x" * 255, "File name too long|no such file")):
            index.write_text(json.dumps({"weight_map": {"embeddings.word_embeddings.weight": name}}), encoding="utf-8")
            status, err = self.run_main(self.folder, "-o", self.out)
            self.assertEqual((status, err.count("\n")), (1, 1), err)
            self.assertRegex(err, word)
            self.assertLess(len(err), 1000)

    def test_what_nobody_foresaw_is_one_line(self):
        self.make("bert", "none")
        for error in (OSError(36, "File name too long", "x\ny"), ValueError("a\nb"), OverflowError("c"), RecursionError("d"), MemoryError()):
            with self.subTest(type(error).__name__), unittest.mock.patch.object(convert_hf, "read_config", side_effect=error):
                self.assert_refused("convert_hf.py: error: ")


class Packages(unittest.TestCase):
    def test_missing_packages_are_named(self):
        """-S: without what pip installed."""
        for script in ("convert_hf.py", "make_random.py"):
            p = subprocess.run([sys.executable, "-I", "-S", "-c", f"import sys, runpy; sys.path[0:0] = [{str(ROOT / 'convert')!r}]; "
                                f"runpy.run_path({str(ROOT / 'convert' / script)!r}, run_name='__main__')"], capture_output=True, text=True)
            self.assertEqual((p.returncode, p.stderr.count("\n")), (1, 1), p.stderr)
            self.assertIn("numpy", p.stderr)
            self.assertIn("pip install -r", p.stderr)
            self.assertIn("requirements.txt", p.stderr)


if __name__ == "__main__":
    unittest.main()
