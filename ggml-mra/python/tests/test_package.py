"""The installed package against the programs, on the golden models.

    python ggml-mra/python/tests/test_package.py BIN        BIN: the folder of mra-embed and the other programs
"""
from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
from pathlib import Path

import numpy as np

import ggml_mra
from ggml_mra import _library as l

HERE = Path(__file__).resolve().parent
MODELS = HERE.parents[2] / "tests/golden/models"
BERT, XLM, MRA, ROBERTA = (str(MODELS / f"{n}.gguf") for n in ("bert", "xlm-roberta", "mra", "roberta"))
BIN = ""
TEXTS = ["a man is eating", "someone has a meal", "it rains", "", "a \u00fc b \U0001f600 c", "x" * 40, "one two three four five six " * 3]
LONG = "a " * 500


def run(program: str, *args: str) -> bytes:
    return subprocess.run([f"{BIN}/mra-{program}", *args], capture_output=True, check=True).stdout


def embed(model: str, texts: list, *args: str, width: int = 64) -> np.ndarray:
    """What mra-embed computes, bit for bit."""
    lines = "".join(json.dumps({"text": t}) + "\n" for t in texts)
    out = subprocess.run([f"{BIN}/mra-embed", "-m", model, "--format", "raw", "--input", "jsonl", *args, "-"], input=lines.encode(),
                         capture_output=True, check=True).stdout
    return np.frombuffer(out, np.float32).reshape(len(texts), width)


def json_lines(out: bytes) -> list:
    return [json.loads(x) for x in out.decode().splitlines()]


class Library(unittest.TestCase):
    def test_layout_is_the_compilers(self):
        table = l.read_layout(l.lib.mra_python_layout())
        self.assertGreater(len(table), 100)
        self.assertEqual(l.differences(table), [])

    def test_a_difference_is_found(self):
        table = l.read_layout(l.lib.mra_python_layout())

        class Moved(ctypes.Structure):
            _fields_ = [("id", ctypes.c_int32), ("end", ctypes.c_uint32), ("start", ctypes.c_uint32), ("text", ctypes.c_int16),
                        ("segment", ctypes.c_int16)]

        class Short(ctypes.Structure):
            _fields_ = [("seq", ctypes.c_int)]

        self.assertEqual(len(l.differences(table, {**l.STRUCTS, "mra_token": Moved})), 2)  # start and end
        self.assertEqual(len(l.differences(table, {**l.STRUCTS, "mra_at": Short})), 2)  # size and the missing member
        self.assertEqual(len(l.differences(table, constants={**l.CONSTANTS, "MRA_OUTPUT_CLASS": 3})), 1)
        self.assertEqual(len(l.differences(table[:-1])), 1)

    def test_exports_are_what_is_called(self):
        names = [x for x in (HERE.parent / "exports.txt").read_text().split("\n") if x and x[0] != "#"]
        self.assertEqual(sorted(names), sorted(l.FUNCTIONS))
        self.assertFalse(hasattr(ctypes.CDLL(l.lib._name), "ggml_init"))  # another ggml in the process is not disturbed

    def test_kernels(self):
        self.assertIn(ggml_mra.kernels(), "base v3 v3-vnni v4 v4-vnni v4-amx neon neon-dot neon-i8mm".split())


class Embeddings(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.e = ggml_mra.Encoder(BERT)

    def test_equal_to_the_program(self):
        for model in (BERT, XLM, MRA, ROBERTA):
            e, width = ggml_mra.Encoder(model), l.lib.mra_model_info(ggml_mra.Encoder(model)._model.handle).n_embd
            rows = e.encode(TEXTS)
            self.assertEqual((rows.dtype, rows.shape), (np.float32, (len(TEXTS), width)))
            np.testing.assert_array_equal(rows, embed(model, TEXTS, width=width), err_msg=model)
            for size in (1, 3):
                np.testing.assert_array_equal(e.encode(TEXTS, batch_size=size), rows)
            np.testing.assert_array_equal(e.encode(TEXTS[0]), rows[0])
            np.testing.assert_array_equal(e.encode(TEXTS, normalize_embeddings=True), embed(model, TEXTS, "--normalize", width=width))
            np.testing.assert_array_equal(e.encode(TEXTS, normalize_embeddings=True, truncate_dim=24),
                                          embed(model, TEXTS, "--normalize", "--dims", "24", width=24))
            np.testing.assert_array_equal(e.encode(TEXTS, truncate_dim=24), rows[:, :24])

    def test_attention(self):
        e = ggml_mra.Encoder(MRA, n_threads=2)
        text = ["one two three " * 20]
        exact, half = e.encode(text, attention="exact"), e.encode(text, attention="mra", frame="columns", budget=0.5)
        np.testing.assert_array_equal(exact, embed(MRA, text, "--attn", "exact"))
        np.testing.assert_array_equal(half, embed(MRA, text, "--attn", "mra", "--frame", "columns", "--budget", "0.5"))
        self.assertTrue((exact != half).any())
        made = ggml_mra.Encoder(MRA, attention="mra", frame="columns", budget=0.5)
        np.testing.assert_array_equal(made.encode(text), half)
        self.assertIn("columns, budget 0.5", made.attention_of(200))

    def test_estimate(self):
        text = "one two three " * 20
        options = dict(attention="mra", frame="columns", budget=0.25)
        rows, errors = ggml_mra.Encoder(MRA).encode([text, "short"], estimate=True, **options)
        said = [x["estimate"] for x in json_lines(subprocess.run(
            [f"{BIN}/mra-embed", "-m", MRA, "--attn", "mra", "--frame", "columns", "--budget", "0.25", "--estimate", text, "short"],
            capture_output=True, check=True).stdout)]
        self.assertGreater(errors[0].error, 0)
        for e, s in zip(errors, said):
            self.assertEqual([float(f"{x:.3g}") for x in (e.error, *e.interval, e.heads_mean, e.heads_max)],
                             [s["error"], *s["interval"], s["heads_mean"], s["heads_max"]])
            if e.worst:
                self.assertEqual(e.worst, (s["worst"]["layer"], s["worst"]["head"]))
        np.testing.assert_array_equal(rows[0], ggml_mra.Encoder(MRA).encode(text, **options))
        _, exact = ggml_mra.Encoder(BERT).encode("a", attention="exact", estimate=True)
        self.assertEqual((exact.error, exact.worst), (0, None))

    def test_token_embeddings(self):
        out = self.e.encode(TEXTS[:3], output_value="token_embeddings")
        counts = [int(n) for n in run("tokenize", "-m", BERT, "--count", *TEXTS[:3]).split()]
        self.assertEqual([x.shape for x in out], [(n, 64) for n in counts])
        pooled = ggml_mra.Encoder(BERT, pooling="mean").encode(TEXTS[:3])
        length = np.linalg.norm(pooled, axis=1)
        for x, row, n in zip(out, pooled, length):
            np.testing.assert_allclose(x.mean(axis=0) / (np.linalg.norm(x.mean(axis=0)) if abs(n - 1) < 1e-5 else 1), row, atol=1e-5)

    def test_too_long(self):
        with self.assertRaisesRegex(ggml_mra.TooLongError, r"^text 1: \d+ tokens, the limit is \d+: truncate=True") as caught:
            self.e.encode(["a", LONG])
        self.assertIsInstance(caught.exception, ValueError)
        np.testing.assert_array_equal(self.e.encode([LONG], truncate=True), embed(BERT, [LONG], "--truncate", "right"))
        short = ggml_mra.Encoder(self.e, max_seq_length=8, truncate=True)
        np.testing.assert_array_equal(short.encode([LONG]), embed(BERT, [LONG], "--truncate", "right", "--max-tokens", "8"))

    def test_refused(self):
        e = self.e
        for error, words, call in (
                (ggml_mra.FileError, "nowhere.gguf", lambda: ggml_mra.Encoder("nowhere.gguf")),
                (ggml_mra.FormatError, "", lambda: ggml_mra.Encoder(__file__)),
                (ggml_mra.DeviceError, "CUDA", lambda: ggml_mra.Encoder(BERT, device="cuda")),
                (ggml_mra.ArgumentError, "attention='all'", lambda: ggml_mra.Encoder(BERT, attention="all")),
                (ggml_mra.ArgumentError, "budget=2", lambda: e.encode("a", budget=2)),
                (ggml_mra.ArgumentError, "frame", lambda: e.encode("a", frame="round")),
                (ggml_mra.ArgumentError, "batch_size=0", lambda: e.encode(["a"], batch_size=0)),
                (ggml_mra.ArgumentError, "truncate_dim=65", lambda: e.encode("a", truncate_dim=65)),
                (ggml_mra.ArgumentError, "precision='int4'", lambda: e.encode("a", precision="int4")),
                (ggml_mra.ArgumentError, "no ranges of 1 embeddings", lambda: e.encode("a", precision="int8")),
                (ggml_mra.ArgumentError, "output_value", lambda: e.encode("a", output_value="all")),
                (ggml_mra.ArgumentError, "prompt_name='q'", lambda: e.encode("a", prompt_name="q")),
                (ggml_mra.ArgumentError, "positions", lambda: ggml_mra.Encoder(BERT, max_seq_length=10**6)),
                (ggml_mra.UnsupportedError, "torch.from_numpy", lambda: e.encode("a", convert_to_tensor=True)),
                (ggml_mra.UnsupportedError, "device='cuda'", lambda: e.encode("a", device="cuda")),
                (TypeError, "text 1 is int, not str|text 1 is neither", lambda: e.encode(["a", 3])),
                (UnicodeEncodeError, "surrogates", lambda: e.encode("\ud800"))):
            with self.subTest(words), self.assertRaisesRegex(error, words):
                call()
        self.assertEqual(e.encode([]).shape, (0, 64))

    def test_prompts(self):
        e = ggml_mra.Encoder(self.e, prompts={"query": "find: ", "passage": "text: "})
        plain = self.e
        np.testing.assert_array_equal(e.encode_query("a"), plain.encode("find: a"))
        np.testing.assert_array_equal(e.encode_document(["a"]), plain.encode(["text: a"]))
        np.testing.assert_array_equal(e.encode("a"), plain.encode("a"))
        np.testing.assert_array_equal(e.encode("a", prompt_name="query"), plain.encode("find: a"))
        np.testing.assert_array_equal(e.encode_query("a", prompt="so "), embed(BERT, ["a"], "--prefix", "so ")[0])
        e = ggml_mra.Encoder(self.e, prompts={"query": "find: "}, default_prompt_name="query")
        np.testing.assert_array_equal(e.encode("a"), plain.encode("find: a"))
        np.testing.assert_array_equal(e.encode("a", prompt=""), plain.encode("a"))

    def test_similarity(self):
        a, b = self.e.encode(TEXTS[:2]), self.e.encode(TEXTS[1:4])
        for name, one in (("cosine", lambda x, y: x @ y / np.linalg.norm(x) / np.linalg.norm(y)), ("dot", lambda x, y: x @ y),
                          ("euclidean", lambda x, y: -np.sqrt(((x - y) ** 2).sum())), ("manhattan", lambda x, y: -np.abs(x - y).sum())):
            e = ggml_mra.Encoder(self.e, similarity_fn_name=name)
            wanted = [[one(x, y) for y in b] for x in a]
            np.testing.assert_allclose(e.similarity(a, b), wanted, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(e.similarity_pairwise(a, b[:2]), [wanted[0][0], wanted[1][1]], rtol=1e-4, atol=1e-5)

    def test_precision(self):
        rows = self.e.encode(TEXTS)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            int8, uint8 = (self.e.encode(TEXTS, precision=p) for p in ("int8", "uint8"))
        self.assertIn("fewer than 100", str(said[0].message))
        low, high = rows.min(axis=0), rows.max(axis=0)
        level = (rows - low) / ((high - low) / 255)
        self.assertEqual((int8.dtype, uint8.dtype), (np.int8, np.uint8))
        self.assertLess(np.abs(uint8 - level).max(), 1.01)
        np.testing.assert_array_equal(int8.astype(int), uint8.astype(int) - 128)
        self.assertEqual((uint8.min(), int8.min()), (0, -128))
        bits = self.e.encode(TEXTS, precision="ubinary")
        self.assertEqual((bits.dtype, bits.shape), (np.uint8, (len(TEXTS), 8)))
        np.testing.assert_array_equal(np.unpackbits(bits, axis=1).astype(bool), rows > 0)
        np.testing.assert_array_equal(self.e.encode(TEXTS, precision="binary").astype(int), bits.astype(int) - 128)
        given = ggml_mra.quantize_embeddings(rows, "int8", ranges=np.stack([low / 2, high / 2]))
        self.assertTrue((given[rows < low / 2] == -128).all() and (given[rows > high / 2] == 127).all())  # not the other side

    def test_several_threads_one_model(self):
        wanted, wrong = self.e.encode(TEXTS), []

        def work():
            for _ in range(10):
                if (self.e.encode(TEXTS, batch_size=2) != wanted).any():
                    wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])
        self.assertLessEqual(len(self.e._model._free), 2 * (os.cpu_count() or 1))

    def test_the_lock_is_free_while_it_computes(self):
        self.assertIsInstance(l.lib, ctypes.CDLL)
        self.assertNotIsInstance(l.lib, ctypes.PyDLL)  # the kind that keeps it

    def test_forked_process(self):
        wanted = self.e.encode(TEXTS)
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(write, self.e.encode(TEXTS).tobytes())
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as f:
            got = f.read()
        end = time.monotonic() + 60
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        self.assertEqual(got, wanted.tobytes())

    def test_progress(self):
        code = f"import ggml_mra; ggml_mra.Encoder({BERT!r}).encode(['a', 'b', 'c'], batch_size=2, show_progress_bar=True)"
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        self.assertEqual(said.stderr.decode().replace("\r", "|"), "|2/3 texts|3/3 texts\n")


class Heads(unittest.TestCase):
    PAIRS = [("a man is eating", "someone has a meal"), ("a", "it rains"), ("a man", "x y z " * 20)]

    def test_cross_encoder(self):
        model = XLM
        e = ggml_mra.CrossEncoder(model)
        docs = [b for _, b in self.PAIRS]
        logits = e.predict([("a man", d) for d in docs], activation_fn="identity")
        ranked = {docs.index(x["text"]): x["score"] for x in json_lines(run("rerank", "-m", model, "-q", "a man", "--json", *docs))}
        if e.num_labels == 1:
            np.testing.assert_allclose(logits, [ranked[i] for i in range(3)], rtol=1e-6)
            order = e.rank("a man", docs, return_documents=True)
            self.assertEqual([x["text"] for x in order], [docs[x["corpus_id"]] for x in order])
            self.assertEqual([x["corpus_id"] for x in order], sorted(ranked, key=lambda i: -ranked[i]))
            self.assertEqual(len(e.rank("a man", docs, top_k=2)), 2)
            np.testing.assert_allclose(e.predict([("a man", d) for d in docs]), 1 / (1 + np.exp(-logits)), rtol=1e-5)
            self.assertEqual(e.predict(("a man", docs[0])), e.predict([("a man", docs[0])])[0])
        else:
            self.assertEqual(logits.shape, (3, e.num_labels))
            with self.assertRaisesRegex(ggml_mra.ArgumentError, "one label"):
                e.rank("a man", docs)

    def test_one_label(self):
        self.assertIn(1, [ggml_mra.CrossEncoder(str(m)).num_labels for m in (BERT, XLM, MRA, ROBERTA)])

    def test_classifier(self):
        for model in (BERT, XLM, ROBERTA):
            e = ggml_mra.Classifier(model)
            said = json_lines(run("classify", "-m", model, "--json", *[a for a, _ in self.PAIRS]))
            for ours, theirs in zip(e([a for a, _ in self.PAIRS]), said):
                self.assertEqual([x["label"] for x in ours], [x["label"] for x in theirs["labels"]])
                np.testing.assert_allclose([x["score"] for x in ours], [x["score"] for x in theirs["labels"]], rtol=1e-5)
            said = json_lines(run("classify", "-m", model, "--json", self.PAIRS[0][0], "--pair", self.PAIRS[0][1]))[0]
            best = e(self.PAIRS[0], top_k=1)
            self.assertEqual([x["label"] for x in best], [said["labels"][0]["label"]])
            self.assertAlmostEqual(best[0]["score"], said["labels"][0]["score"], 5)

    def test_fill_mask(self):
        e = ggml_mra.FillMask(ROBERTA)
        texts = ["a <mask> is here", "\u00fc [MASK] and <mask>"]
        said = json_lines(run("fill-mask", "-m", ROBERTA, "--json", "-k", "4", *texts))
        one, two = e(texts, top_k=4)
        for ours, theirs in zip([one, *two], [said[0]["masks"][0], *said[1]["masks"]]):
            self.assertEqual([(x["token"], x["token_str"], x["sequence"]) for x in ours],
                             [(x["id"], x["token"], x["text"]) for x in theirs])
            np.testing.assert_allclose([x["score"] for x in ours], [x["score"] for x in theirs], rtol=1e-5)
        with self.assertRaisesRegex(ggml_mra.ArgumentError, "no <mask> in the text"):
            e("nothing")

    def test_wrong_model(self):
        none = str(HERE.parents[2] / "tests/golden/families/nomic.gguf")
        for kind, words in ((ggml_mra.CrossEncoder, "no classifier"), (ggml_mra.Classifier, "no classifier"), (ggml_mra.FillMask, "no masked")):
            with self.assertRaisesRegex(ggml_mra.ArgumentError, words):
                kind(none)

    def test_tokenizer(self):
        t = ggml_mra.Tokenizer(BERT)
        for text in TEXTS:
            said = json_lines(run("tokenize", "-m", BERT, "--json", text))[0]["tokens"]
            got = t.encode(text)
            self.assertEqual(got.ids, [x["id"] for x in said])
            raw = text.encode()
            for (a, b), x, special in zip(got.offsets, said, got.special_tokens_mask):
                self.assertEqual(special, int("start" not in x))
                if not special:
                    self.assertEqual(text[a:b].encode(), raw[x["start"]:x["end"]])
        pair = t.encode("a man", "eats")
        self.assertEqual(sorted(set(pair.type_ids)), [0, 1])
        self.assertEqual([x for x in pair.sequence_ids if x is not None][-1], 1)
        self.assertEqual(t.token_to_id("no such token"), None)
        self.assertEqual(t.count("a man"), len(t.encode("a man")))
        self.assertEqual(len(t.encode("a man", add_special_tokens=False)), t.count("a man") - 2)


class Damaged(unittest.TestCase):
    def test_not_finite(self):
        data = bytearray(Path(BERT).read_bytes())
        data[-4096:] = b"\xff" * 4096  # nan in whatever tensor is last
        with tempfile.NamedTemporaryFile(suffix=".gguf") as f:
            f.write(data)
            f.flush()
            e = ggml_mra.Classifier(f.name)
            with self.assertRaisesRegex(ggml_mra.FormatError, "not a finite number"):
                for kind in (lambda: e.predict_logits(["a"]), lambda: ggml_mra.Encoder(e).encode("a"),
                             lambda: ggml_mra.FillMask(e)("a [MASK]", top_k=1)):
                    kind()


if __name__ == "__main__":
    BIN = sys.argv.pop(1)
    unittest.main()
