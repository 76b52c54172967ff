"""Beside sentence-transformers on a real model: within 1e-3 for f16, and the same bytes of quantize_embeddings.

    python test_reference.py HF_FOLDER MODEL-f16.gguf        make test-python-reference; needs sentence-transformers
"""
from __future__ import annotations

import sys
import unittest
import warnings

import numpy as np
from sentence_transformers import SentenceTransformer
from sentence_transformers.util.quantization import quantize_embeddings as reference_quantize

import ggml_mra

FOLDER = MODEL = ""
TEXTS = ["A man is eating food.", "Someone is having a meal.", "How do I reset my password?", "\u00dcber den Wolken", "",
         "The quick brown fox jumps over the lazy dog. " * 10, *(f"Sentence number {i} is about the number {i * i}." for i in range(30))]


class Reference(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.theirs, cls.ours = SentenceTransformer(FOLDER, device="cpu"), ggml_mra.Encoder(MODEL, n_threads=1)
        cls.rows = cls.theirs.encode(TEXTS)

    def close(self, ours, theirs):
        self.assertEqual(ours.shape, theirs.shape)
        error = float(np.abs(ours - theirs).max())
        print(f"{self.id().split('.')[-1]}: largest difference {error:.2g}", file=sys.stderr)
        self.assertLess(error, 1e-3)

    def test_encode(self):
        self.close(self.ours.encode(TEXTS), self.rows)
        self.close(self.ours.encode(TEXTS, normalize_embeddings=True), self.theirs.encode(TEXTS, normalize_embeddings=True))
        self.close(self.ours.encode(TEXTS[0]), self.theirs.encode(TEXTS[0]))

    def test_cut_dimensions(self):
        for normalize in (False, True):
            self.close(self.ours.encode(TEXTS, truncate_dim=64, normalize_embeddings=normalize),
                       self.theirs.encode(TEXTS, truncate_dim=64, normalize_embeddings=normalize))

    def test_prompt(self):
        self.close(self.ours.encode_query(TEXTS, prompt="query: "), self.theirs.encode_query(TEXTS, prompt="query: "))

    def test_similarity(self):
        self.close(self.ours.similarity(self.rows[:5], self.rows[3:9]), self.theirs.similarity(self.rows[:5], self.rows[3:9]).numpy())

    def test_quantize(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for precision in ("float32", "int8", "uint8", "binary", "ubinary"):
                for rows in (self.rows, self.rows[:, :61], self.rows[:2], self.rows[:0]):
                    ours, theirs = ggml_mra.quantize_embeddings(rows, precision), reference_quantize(rows, precision)
                    self.assertEqual(ours.dtype, theirs.dtype)
                    np.testing.assert_array_equal(ours, theirs)


if __name__ == "__main__":
    FOLDER, MODEL = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main()
