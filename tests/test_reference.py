"""The numpy references against each other and against the committed goldens; needs convert/requirements.txt only."""
from __future__ import annotations

import unittest

import numpy as np

from convert_helpers import GOLDEN
import mra_reference as ref
from encoder_reference import Encoder


def qkv(n: int, d: int, seed: int) -> tuple:
    rng = np.random.default_rng(seed)
    return tuple(rng.standard_normal((n, d)) * s for s in (1.5, 1.5, 1))


class Attention(unittest.TestCase):
    LENGTHS = (1, 31, 32, 33, 97, 128)

    def close(self, a, b):
        np.testing.assert_allclose(a, b, atol=1e-12)

    def test_everything_refined_is_exact(self):
        for n in self.LENGTHS:
            q, k, v = qkv(n, 24, n)
            for sizes in ((32, 1), (16, 4, 1)):
                self.close(ref.square(q, k, v, sizes, (10**6,) * 2), ref.exact(q, k, v))
            self.close(ref.columns(q, k, v, 10**6, 10**6), ref.exact(q, k, v))
            self.close(ref.sorted_rows(q, k, v, 10**6, 10**6), ref.exact(q, k, v))
            self.close(ref.sorted_rows(q, k, v, 1, 0, n_exact=10**6), ref.exact(q, k, v))

    def test_nothing_refined_is_attention_of_means(self):
        q, k, v = qkv(128, 32, 1)
        pooled = [x.reshape(4, 32, 32).mean(1) for x in (q, k, v)]
        expected = np.repeat(ref.exact(*pooled, scale=32**-0.5), 32, 0)
        self.close(ref.square(q, k, v, (32, 1), (0,)), expected)

    def test_sparse_is_masked_softmax(self):
        q, k, v = qkv(64, 32, 2)
        out = ref.square(q, k, v, (32, 1), (2,), diag_n=1, sparse=True)  # the two cells of the diagonal
        self.close(out[:32], ref.exact(q[:32], k[:32], v[:32]))
        self.close(out[32:], ref.exact(q[32:], k[32:], v[32:]))

    def test_padding_never_counts(self):
        for n in self.LENGTHS:
            q, k, v = qkv(n, 32, n + 1)
            padded = [np.pad(x, ((0, 70), (0, 0)), constant_values=30) for x in (q, k, v)]
            mask = np.arange(n + 70) < n
            for attention in (lambda *a, **o: ref.square(*a, (32, 1), (5,), **o), lambda *a, **o: ref.square(*a, (16, 4, 1), (9, 40), rule="mu", **o),
                              lambda *a, **o: ref.columns(*a, 3, 9, **o), lambda *a, **o: ref.sorted_rows(*a, 3, 9, 1, **o), ref.exact):
                out = attention(*padded, mask=mask)
                self.close(out[:n], attention(q, k, v))
                self.assertFalse(out[n:].any())

    def test_order_is_a_permutation_and_separates(self):
        for n in (1, 15, 16, 17, 33, 211):
            q, k, _ = qkv(n, 24, n)
            self.assertEqual(list(np.sort(ref.query_order(q, k))), list(range(n)))
        q, k, _ = qkv(256, 24, 5)
        kind = np.arange(256) * 7 % 4
        order = ref.query_order(0.01 * q + 5 * np.eye(24)[kind], k)
        self.assertTrue((kind[order].reshape(-1, 16) == kind[order[::16], None]).all())

    def test_mean_key_does_not_count(self):
        q, k, v = qkv(97, 24, 6)
        self.close(ref.sorted_rows(q, k + 3, v, 4, 20), ref.sorted_rows(q, k, v, 4, 20))

    def test_huge_scores(self):
        q, k, v = qkv(96, 32, 3)
        for out in (ref.square(q * 1e3, k * 1e3, v, (32, 1), (4,)), ref.columns(q * 1e3, k * 1e3, v, 3, 9)):
            self.assertTrue(np.isfinite(out).all())


class Goldens(unittest.TestCase):
    def test_models(self):
        for path in sorted((GOLDEN / "models").glob("*.gguf")):
            with self.subTest(path.stem):
                self.check(path.stem, Encoder(path))

    def check(self, name: str, encoder: Encoder) -> None:
        golden = {w: np.load(GOLDEN / "models" / f"{name}.{w}.npy") for w in ("lengths", "ids", "types", "hidden", "mean", "logits", "mlm")}
        starts = np.concatenate([[0], np.cumsum(golden["lengths"])])
        attention = self.attention(encoder.meta)
        for i, (a, b) in enumerate(zip(starts, starts[1:])):
            hidden = encoder.hidden(golden["ids"][a:b], golden["types"][a:b], attention)
            np.testing.assert_allclose(hidden, golden["hidden"][a:b], atol=1e-6)
            np.testing.assert_allclose(hidden.mean(0), golden["mean"][i], atol=1e-6)
            np.testing.assert_allclose(encoder.classify(hidden), golden["logits"][i], atol=1e-6)
            if i == 1:
                np.testing.assert_allclose(encoder.fill_mask(hidden[:6]), golden["mlm"], atol=2e-6)

    def attention(self, meta: dict):
        if meta["mra.family"] != "mra":
            return ref.exact
        key = lambda name: meta[f"mra.attention.{name}"]
        budget = ref.checkpoint_budget(key("max_position_embeddings"), key("block_per_row"))
        return lambda q, k, v: ref.square(
            q, k, v, (32, 1), (budget,), scale=meta.get("mra.attention.scale"), first_n=key("initial_prior_first_n_blocks"),
            diag_n=key("initial_prior_diagonal_n_blocks"), sparse=key("approx_mode") == "sparse")


if __name__ == "__main__":
    unittest.main()
