"""bge-m3's weights and ColBERT vectors of tokens, and sentence-transformers' Dense modules, against numpy.

    python tests/test_token_heads.py BIN        BIN: the folder of the programs
"""
from __future__ import annotations

import json
import subprocess
import sys
import unittest

import numpy as np

from convert_helpers import FolderTest, convert_hf, edit_json, save_file, save_torch
from encoder_reference import Encoder

BIN = ""
TEXTS = ("a text about a text", "another one, longer than the first one is", "x")
N_COLBERT = 24


def softmax_attention(q, k, v):
    s = q @ k.T / np.sqrt(q.shape[1])
    p = np.exp(s - s.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True) @ v


class TokenHeads(FolderTest):
    def run_program(self, program: str, *args: str, status: int = 0) -> str:
        p = subprocess.run([f"{BIN}/mra-{program}", "-t", "1", "-m", str(self.out), *args], capture_output=True, text=True)
        self.assertEqual(p.returncode, status, p.stderr)
        return p.stderr if status else p.stdout

    def hidden(self, text: str) -> tuple:
        ids = [int(i) for i in self.run_program("tokenize", "--ids", text).split()]
        return ids, Encoder(self.out).hidden(np.array(ids), np.zeros(len(ids), int), softmax_attention)

    def bge_m3(self) -> tuple:
        self.make("xlm-roberta", "none")
        rng = np.random.default_rng(3)
        f32 = lambda *shape: rng.standard_normal(shape).astype(np.float32)
        sparse, colbert = {"weight": f32(1, 32), "bias": f32(1)}, {"weight": f32(N_COLBERT, 32), "bias": f32(N_COLBERT)}
        save_torch(self.folder / "sparse_linear.pt", sparse)
        save_torch(self.folder / "colbert_linear.pt", colbert)
        convert_hf.convert(self.folder, self.out, "f32")
        return sparse, colbert

    def vectors(self, text: str, colbert: dict):
        _, h = self.hidden(text)
        x = (h @ colbert["weight"].T + colbert["bias"])[1:]
        return x / np.linalg.norm(x, axis=1, keepdims=True)

    def test_sparse(self):
        sparse, _ = self.bge_m3()
        lines = self.run_program("embed", "--output", "sparse", *TEXTS).splitlines()
        self.assertEqual(len(lines), len(TEXTS))
        n = 0
        for text, line in zip(TEXTS, lines):
            ids, h = self.hidden(text)
            weights = np.maximum(h @ sparse["weight"].T + sparse["bias"], 0)[:, 0]
            want = {}
            for i, w in list(zip(ids, weights))[1:-1]:
                if w > 0 and i != 3:
                    want[str(i)] = max(want.get(str(i), 0), w)
            got = json.loads(line)["weights"]
            self.assertEqual(set(got), set(want))
            for key, w in want.items():
                self.assertAlmostEqual(got[key], w, 3)
            n += len(want)
        self.assertGreater(n, 3)

    def test_colbert(self):
        _, colbert = self.bge_m3()
        for text, line in zip(TEXTS, self.run_program("embed", "--output", "colbert", *TEXTS).splitlines()):
            got = np.array(json.loads(line)["vectors"])
            want = self.vectors(text, colbert)
            self.assertEqual(got.shape, want.shape)
            self.assertLess(np.abs(got - want).max(), 1e-3)

    def test_colbert_score(self):
        _, colbert = self.bge_m3()
        q = self.vectors(TEXTS[0], colbert)
        want = {text: (q @ self.vectors(text, colbert).T).max(1).mean() for text in TEXTS}
        rows = [line.split("\t") for line in self.run_program("rerank", "--scores", "colbert", "-q", TEXTS[0], *TEXTS).splitlines()]
        self.assertEqual([row[2] for row in rows], sorted(TEXTS, key=lambda t: -want[t]))
        for score, _, text in rows:
            self.assertAlmostEqual(float(score), want[text], 2)

    def test_without_heads(self):
        self.make("xlm-roberta", "none")
        convert_hf.convert(self.folder, self.out, "f32")
        self.assertIn("no weights of tokens", self.run_program("embed", "--output", "sparse", "a", status=1))
        self.assertIn("no ColBERT vectors", self.run_program("embed", "--output", "colbert", "a", status=1))
        self.assertIn("no ColBERT vectors", self.run_program("rerank", "--scores", "colbert", "-q", "a", "b", status=1))
        self.assertIn("JSON Lines only", self.run_program("embed", "--output", "sparse", "--format", "text", "a", status=2))

    def test_bad_files(self):
        self.make("xlm-roberta", "none")
        save_torch(self.folder / "sparse_linear.pt", {"weight": np.zeros((2, 32), np.float32), "bias": np.zeros(2, np.float32)})
        self.assert_refused("sparse_linear.pt", "dense layer of 32 numbers")

    def dense_folder(self, *layers) -> None:
        """layers: (activation, weight, bias or None)"""
        self.make("bert", "none")
        kinds = [("Transformer", ""), ("Pooling", "1_Pooling"), *(("Dense", f"{i + 2}_Dense") for i in range(len(layers))), ("Normalize", "9_Normalize")]
        (self.folder / "modules.json").write_text(json.dumps(
            [{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"} for i, (kind, path) in enumerate(kinds)]))
        for _, path in kinds[1:]:
            (self.folder / path).mkdir()
        (self.folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
        for i, (activation, weight, bias) in enumerate(layers):
            folder = self.folder / f"{i + 2}_Dense"
            config = {"in_features": weight.shape[1], "out_features": weight.shape[0], "bias": bias is not None, "activation_function": activation}
            (folder / "config.json").write_text(json.dumps(config))
            save_file({"linear.weight": weight, **({} if bias is None else {"linear.bias": bias})}, str(folder / "model.safetensors"))

    def test_dense_modules(self):
        rng = np.random.default_rng(4)
        a, bias, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((48, 32), (48,), (20, 48)))
        self.dense_folder(("torch.nn.modules.activation.Tanh", a, bias), ("torch.nn.modules.linear.Identity", b, None))
        convert_hf.convert(self.folder, self.out, "f32")
        for dims in (20, 7):
            for text, line in zip(TEXTS, self.run_program("embed", "--dims", str(dims), *TEXTS).splitlines()):
                x = (np.tanh(self.hidden(text)[1].mean(0) @ a.T + bias) @ b.T)[:dims]
                got = json.loads(line)["embedding"]
                self.assertEqual(len(got), dims)
                self.assertLess(np.abs(np.array(got) - x / np.linalg.norm(x)).max(), 1e-3)
        self.assertIn("have 20", self.run_program("embed", "--dims", "32", "a", status=1))

    def test_bad_dense_modules(self):
        w = np.ones((16, 32), np.float32)
        self.dense_folder(("torch.nn.modules.activation.Softmax", w, None))
        self.assert_refused("activation_function 'Softmax'")
        self.dense_folder(("torch.nn.modules.activation.Tanh", w, None), ("torch.nn.modules.activation.Tanh", w, None))
        self.assert_refused("takes 32 numbers, the one before it gives 16")
        self.dense_folder(("torch.nn.modules.activation.Tanh", w, None))
        edit_json(self.folder / "2_Dense" / "config.json", out_features=17)
        self.assert_refused("no linear.weight of shape [17, 32]")


if __name__ == "__main__":
    BIN = sys.argv.pop(1)
    unittest.main()
