"""mra-server: every route, and what it refuses.

    python tests/test_server.py BIN        BIN: the folder of mra-server and mra-embed
"""
from __future__ import annotations

import base64
import json
import math
import struct
import subprocess
import sys
import unittest

from server_client import MODELS, Server, embed_rows

BIN = ""
TEXTS = ["a man is eating", "someone has a meal", "it rains", "", "a \u00fc b \U0001f600 c", "x" * 40]
LONG = "a " * 500


def floats(row: list) -> bytes:
    return struct.pack(f"<{len(row)}f", *row)


def run(program: str, *args: str) -> str:
    return subprocess.run([f"{BIN}/mra-{program}", "-t", "1", *args], capture_output=True, check=True, text=True).stdout


class ServerTest(unittest.TestCase):
    args: tuple = ()
    models: tuple = ("bert.gguf", "xlm-roberta.gguf")

    @classmethod
    def setUpClass(cls):
        cls.s = Server(BIN, *cls.args, models=cls.models)

    @classmethod
    def tearDownClass(cls):
        with cls.s:
            pass

    def good(self, path: str, body):
        r = self.s.post(path, body)
        self.assertEqual(r.status, 200, r.bytes)
        return r.json

    def fails(self, status: int, words: str, path: str, body, **k):
        r = self.s.post(path, body, **k)
        self.assertEqual(r.status, status, r.bytes)
        self.assertIn(words, r.error())
        return r


class Embeddings(ServerTest):
    def test_openai(self):
        rows = embed_rows(BIN, TEXTS, "--normalize")
        r = self.good("/v1/embeddings", {"input": TEXTS, "model": "bert", "user": "u"})
        self.assertEqual([d["index"] for d in r["data"]], list(range(len(TEXTS))))
        self.assertEqual([floats(d["embedding"]) for d in r["data"]], rows)
        self.assertEqual((r["object"], r["model"], r["attention"], r["truncated"]), ("list", "bert", "exact", []))
        counts = [int(n) for n in run("tokenize", "-m", str(MODELS / "bert.gguf"), "--count", *TEXTS).split()]
        self.assertEqual(r["usage"], {"prompt_tokens": sum(counts), "total_tokens": sum(counts)})
        r = self.good("/v1/embeddings", {"input": TEXTS, "encoding_format": "base64"})
        self.assertEqual([base64.b64decode(d["embedding"]) for d in r["data"]], rows)
        one = self.good("/v1/embeddings", {"input": TEXTS[0], "encoding_format": None})
        self.assertEqual(floats(one["data"][0]["embedding"]), rows[0])

    def test_dimensions(self):
        for dims in (1, 3, 7, 64):
            rows = embed_rows(BIN, TEXTS[:2], "--normalize", "--dims", str(dims), width=dims)
            r = self.good("/v1/embeddings", {"input": TEXTS[:2], "dimensions": dims, "encoding_format": "base64"})
            self.assertEqual([base64.b64decode(d["embedding"]) for d in r["data"]], rows)
            self.assertEqual([floats(x) for x in self.good("/embed", {"inputs": TEXTS[:2], "dimensions": dims})], rows)
        self.fails(400, "dimensions is 65, not a whole number in 1..64", "/v1/embeddings", {"input": "a", "dimensions": 65})
        self.fails(400, "dimensions", "/v1/embeddings", {"input": "a", "dimensions": 0})

    def test_not_normalized(self):
        rows = embed_rows(BIN, TEXTS, "--no-normalize")
        self.assertEqual([floats(x) for x in self.good("/embed", {"inputs": TEXTS, "normalize": False})], rows)
        r = self.good("/v1/embeddings", {"input": TEXTS, "normalize": False})
        self.assertEqual([floats(d["embedding"]) for d in r["data"]], rows)

    def test_tei(self):
        rows = embed_rows(BIN, TEXTS, "--normalize")
        self.assertEqual([floats(x) for x in self.good("/embed", {"inputs": TEXTS})], rows)
        self.assertEqual([floats(x) for x in self.good("/embed", {"inputs": TEXTS[0]})], rows[:1])
        r = self.s.post("/embed", {"inputs": TEXTS[0]})
        self.assertEqual((r.headers["x-attention"], r.headers["x-model"]), ("exact", "bert"))
        for name in ("tokenization", "queue", "inference", "total"):
            self.assertGreaterEqual(float(r.headers[f"x-{name}-time"]), 0)

    def test_all_tokens(self):
        all_rows = self.good("/embed_all", {"inputs": TEXTS[:3]})
        mean = [[math.fsum(c) / len(t) for c in zip(*t)] for t in all_rows]
        for got, row in zip(mean, embed_rows(BIN, TEXTS[:3], "--no-normalize", "--pooling", "mean")):
            for x, y in zip(got, struct.unpack("<64f", row)):
                self.assertAlmostEqual(x, y, places=5)
        self.assertEqual([len(t) for t in all_rows], [len(t) for t in self.good("/tokenize", {"inputs": TEXTS[:3]})])
        self.fails(422, 'unknown field "normalize"', "/embed_all", {"inputs": "a", "normalize": True})

    def test_models(self):
        r = self.s.get("/v1/models").json
        self.assertEqual([(m["id"], m["uses"], m["dimensions"]) for m in r["data"]],
                         [("bert", ["embed", "classify"], 64), ("xlm-roberta", ["embed", "rerank", "classify"], 72)])
        for name in ("xlm-roberta", "tiny random xlm-roberta"):
            r = self.good("/v1/embeddings", {"input": "a", "model": name})
            self.assertEqual((r["model"], len(r["data"][0]["embedding"])), ("xlm-roberta", 72))
        r = self.fails(404, "no model 'gpt' here; there is bert, xlm-roberta", "/v1/embeddings", {"input": "a", "model": "gpt"})
        self.assertEqual(r.json["error"]["param"], "model")
        self.assertEqual(self.s.get("/info").json["model_id"], "bert")
        self.assertEqual(self.s.get("/info").json["max_input_length"], 128)


class Scores(ServerTest):
    DOCS = ["it rains", "a meal", "someone eats a meal"]

    def ranks(self, *args: str) -> list:
        out = run("rerank", "-m", str(MODELS / "xlm-roberta.gguf"), "-q", "a man eats", "--json", *args, *self.DOCS)
        return [(self.DOCS.index(r["text"]), r["score"]) for r in map(json.loads, out.splitlines())]

    def same(self, got: list, want: list):
        self.assertEqual([i for i, _ in got], [i for i, _ in want])
        for (_, x), (_, y) in zip(got, want):
            self.assertAlmostEqual(x, y, places=5)

    def test_rerank(self):
        ask = {"query": "a man eats", "documents": self.DOCS}
        for path in ("/v1/rerank", "/v2/rerank", "/rerank"):
            r = self.good(path, ask)
            self.assertEqual((r["model"], r["scores"], r["truncated"]), ("xlm-roberta", "probability", []))
            self.same([(x["index"], x["relevance_score"]) for x in r["results"]], self.ranks("--scores", "prob"))
        r = self.good("/v1/rerank", {**ask, "raw_scores": True, "top_n": 2, "return_documents": True})
        self.same([(x["index"], x["relevance_score"]) for x in r["results"]], self.ranks()[:2])
        self.assertEqual([x["document"]["text"] for x in r["results"]], [self.DOCS[i] for i, _ in self.ranks()[:2]])
        r = self.good("/rerank", {"query": "a man eats", "texts": self.DOCS, "raw_scores": True, "return_text": True})
        self.same([(x["index"], x["score"]) for x in r], self.ranks())
        self.assertEqual([x["text"] for x in r], [self.DOCS[i] for i, _ in self.ranks()])

    def test_cosine(self):
        out = run("rerank", "-m", str(MODELS / "bert.gguf"), "-q", "a man eats", "--json", *self.DOCS)
        want = [(self.DOCS.index(r["text"]), r["score"]) for r in map(json.loads, out.splitlines())]
        r = self.good("/v1/rerank", {"query": "a man eats", "documents": self.DOCS, "model": "bert"})
        self.assertEqual(r["scores"], "cosine")
        self.same([(x["index"], x["relevance_score"]) for x in r["results"]], want)
        r = self.good("/similarity", {"inputs": {"source_sentence": "a man eats", "sentences": self.DOCS}, "parameters": None})
        self.same(list(enumerate(r)), sorted(want))

    def test_predict(self):
        def labels(*args: str, model: str = "bert.gguf") -> list:
            out = run("classify", "-m", str(MODELS / model), "--json", *args)
            return [[(x["label"], x["score"]) for x in json.loads(line)["labels"]] for line in out.splitlines()]

        def pairs(reply: list) -> list:
            return [(x["label"], x["score"]) for x in reply]

        single, pair = labels("a meal")[0], labels("a meal", "--pair", "it rains")[0]
        self.same(pairs(self.good("/predict", {"inputs": "a meal"})), single)
        self.same(pairs(self.good("/predict", {"inputs": ["a meal"]})), single)
        self.same(pairs(self.good("/predict", {"inputs": ["a meal", "it rains"]})), pair)
        both = self.good("/predict", {"inputs": [["a meal"], ["a meal", "it rains"]]})
        self.same(pairs(both[0]), single)
        self.same(pairs(both[1]), pair)
        self.same(pairs(self.good("/predict", {"inputs": "a meal", "raw_scores": True})), labels("a meal", "--logits")[0])
        r = self.good("/classify", {"input": ["a meal", "it rains"]})
        self.same(pairs(r["data"][0]), single)
        self.assertEqual((r["object"], len(r["data"])), ("classify", 2))
        one = self.good("/classify", {"input": "a meal", "model": "xlm-roberta", "raw_scores": True})["data"][0]
        self.same(pairs(one), labels("a meal", "--logits", model="xlm-roberta.gguf")[0])
        self.same(pairs(self.good("/", {"inputs": "a meal"})), single)
        self.fails(422, "inputs[1] must be [text] or [text, text]", "/predict", {"inputs": [["a"], ["a", "b", "c"]]})
        self.fails(422, "inputs[0] must be", "/predict", {"inputs": ["a", "b", "c"]})
        self.fails(422, "inputs is an empty list", "/predict", {"inputs": []})

    def test_tokenize(self):
        text = "a \u00fc b \U0001f600 man"
        got = self.good("/tokenize", {"inputs": [text, ""]})
        self.assertEqual([t["special"] for t in got[1]], [True, True])
        for t in got[0]:
            if t["special"]:
                self.assertIsNone(t["start"])
            else:
                self.assertEqual(t["text"], text[t["start"]:t["stop"]])
        ids = run("tokenize", "-m", str(MODELS / "bert.gguf"), "--ids", text).split()
        self.assertEqual([t["id"] for t in got[0]], [int(i) for i in ids])
        plain = self.good("/tokenize", {"inputs": text, "add_special_tokens": False})[0]
        self.assertEqual(plain, got[0][1:-1])


class Refusals(ServerTest):
    args = ("--max-inputs", "5", "--max-body", "0.1")

    def test_json(self):
        for body, words in ((b"", "the body is empty"), (b"{", "not JSON: no key at byte 2"), (b'{"input": "a"} x', "more than one value"),
                            (b'{"input": "\xff"}', "not UTF-8"), (b'{"input": "\\udc00"}', "half a surrogate pair"), (b"[1]", "the body must be an object"), (b"null", "must be an object"),
                            (b'{"input": "a\nb"}', "control character"), (b"[" * 5000, "too many levels")):
            r = self.fails(400, words, "/v1/embeddings", body)
            self.assertEqual(set(r.json["error"]), {"message", "type", "param", "code"})
            self.assertEqual(self.s.post("/embed", body).status, 422 if b"[1]" == body or b"null" == body else 400)
        self.assertEqual(self.s.post("/embed", b"{").json["error_type"], "Validation")

    def test_fields(self):
        for body, words in (({}, "no input"), ({"input": None}, "no input"), ({"inputs": "a"}, 'unknown field "inputs"; there is model, input'),
                            ({"input": 3}, "must be a text or a list"), ({"input": []}, "empty list"), ({"input": ["a", 3]}, "input[1] must be a text"),
                            ({"input": {"a": 1}}, "must be a text or a list"), ({"input": "a", "encoding_format": "int8"}, "not one of float|base64"),
                            ({"input": "a", "normalize": "yes"}, "normalize must be true or false"), ({"input": "a", "dimensions": 1.5}, "dimensions is 1.5"),
                            ({"input": "a", "dimensions": -1}, "dimensions is -1"), ({"input": "a", "model": 3}, "model must be a text"),
                            ({"input": ["a"] * 6}, "input has 6 elements, the limit is 5"), ({"input": "a", "prompt_name": "query"}, "no prompt 'query'")):
            self.fails(400, words, "/v1/embeddings", body)
        for path, body, words in (("/embed", {"inputs": {"a": 1}}, "must be a text or a list"), ("/rerank", {"query": "a"}, "no documents"),
                                  ("/rerank", {"texts": ["a"]}, "no query"), ("/rerank", {"query": "a", "texts": "b"}, "must be a list of texts"),
                                  ("/rerank", {"query": "a", "texts": ["b"], "documents": ["b"]}, "both documents and texts"),
                                  ("/similarity", {"inputs": "a"}, "inputs must be an object"), ("/similarity", {"inputs": {"source_sentence": "a"}}, "no sentences"),
                                  ("/embed", {"inputs": "a", "truncation_direction": "Up"}, "not one of"), ("/tokenize", {}, "no inputs"),
                                  ("/embed_sparse", {"inputs": "a"}, "mra-server --sparse"), ("/classify", {"input": ["a"] * 6}, "limit is 5")):
            self.fails(422, words, path, body)

    def test_paths(self):
        for path in ("/nothing", "/v1", "/embed/", "/../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/page.html"):
            self.assertEqual(self.s.get(path).status, 404, path)
        r = self.s.get("/embed")
        self.assertEqual((r.status, r.headers["Allow"]), (405, "POST"))
        r = self.s.post("/health", {})
        self.assertEqual((r.status, r.headers["Allow"]), (405, "GET"))
        self.assertEqual(self.s.request("DELETE", "/embed").status, 405)
        r = self.s.request("HEAD", "/health")
        self.assertEqual((r.status, r.bytes), (200, b""))

    def test_token_ids(self):
        for ids in ([1, 2, 3], [[1, 2], [3]]):
            r = self.fails(400, "check_embedding_ctx_length=False", "/v1/embeddings", {"input": ids})
            self.assertIn("--accept-token-ids", r.error())

    def test_too_long(self):
        r = self.fails(422, "input[1] has 502 tokens, the limit is 128", "/v1/embeddings", {"input": ["a", LONG]})
        self.assertIn('"truncate": true', r.error())
        self.fails(422, "inputs has 502 tokens, the limit is 128", "/embed", {"inputs": LONG})
        self.fails(422, "the limit is 128", "/rerank", {"query": "a", "texts": ["b", LONG]})
        rows = embed_rows(BIN, ["a", LONG], "--normalize", "--truncate", "right")
        r = self.s.post("/v1/embeddings", {"input": ["a", LONG], "truncate": True})
        self.assertEqual([floats(d["embedding"]) for d in r.json["data"]], rows)
        self.assertEqual((r.json["truncated"], r.headers["x-truncated"], r.json["usage"]["total_tokens"]), ([1], "1", 3 + 128))
        left = "b " + LONG + "c"
        short = self.good("/embed", {"inputs": "a " * 125 + "c"})
        self.assertEqual(self.good("/embed", {"inputs": left, "truncate": True, "truncation_direction": "Left"}), short)
        self.assertNotEqual(self.good("/embed", {"inputs": left, "truncate": True}), short)
        r = self.good("/v1/rerank", {"query": "a", "documents": ["b", LONG], "truncate": True})
        self.assertEqual(r["truncated"], [1])

    def test_large_bodies(self):
        just = b'{"inputs": "a"' + b" " * 99000 + b"}"
        self.assertEqual(self.s.post("/embed", just).status, 200)
        r = self.s.post("/embed", just + b" " * 1000)
        self.assertEqual(r.status, 413)
        self.assertIn("larger than 0.1 MB", r.error())
        self.assertEqual(self.s.post("/embed", b" " * 100_000_000).status, 413)  # as a client that sends all before it reads
        chunks = (b" " * 10000 for _ in range(11))
        c = self.s.connect()
        c.request("POST", "/embed", chunks, encode_chunked=True, headers={"Transfer-Encoding": "chunked"})
        self.assertEqual(c.getresponse().status, 413)
        c.close()
        raw = self.s.raw()
        raw.sendall(b"POST /embed HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\nExpect: 100-continue\r\n\r\n")
        self.assertIn(b"413", raw.recv(100))  # before the body is sent
        raw.close()
        self.assertEqual(self.s.get("/health").status, 200)


class Keys(ServerTest):
    args = ("--api-key", "first", "--api-key", "the second")

    def test_keys(self):
        for key in ("first", "the second"):
            self.assertEqual(self.s.get("/info", headers={"Authorization": f"Bearer {key}"}).status, 200)
        for headers in ({}, {"Authorization": "Bearer "}, {"Authorization": "Bearer firs"}, {"Authorization": "Bearer firsts"},
                        {"Authorization": "Basic first"}, {"Authorization": "Bearer secret"}):
            for r in (self.s.get("/info", headers=headers), self.s.get("/metrics", headers=headers), self.s.post("/embed", {"inputs": "a"}, headers=headers)):
                self.assertEqual((r.status, r.headers["WWW-Authenticate"]), (401, "Bearer"))
                self.assertNotIn(b"second", r.bytes)
        self.assertEqual(self.s.post("/embed", {"inputs": "a"}, headers={"Authorization": "bearer first"}).status, 200)
        for path in ("/", "/health", "/openapi.json"):
            self.assertEqual(self.s.get(path).status, 200)


class Options(ServerTest):
    args = ("--accept-token-ids", "--sparse", "--truncate", "right", "--alias", "mine", "--prefix", "query: ")
    models = ("bert.gguf",)

    def test_token_ids(self):
        ids = [t["id"] for t in self.good("/tokenize", {"inputs": "query: a meal"})[0]]
        want = self.good("/v1/embeddings", {"input": "a meal"})["data"][0]
        self.assertEqual(self.good("/v1/embeddings", {"input": ids})["data"][0], want)
        self.assertEqual(self.good("/v1/embeddings", {"input": [[7], ids]})["data"][1]["embedding"], want["embedding"])
        self.fails(400, "token id 999999 is not in 0..", "/v1/embeddings", {"input": [1, 999999]})
        self.fails(400, "no token id", "/v1/embeddings", {"input": [[1], [-1]]})
        self.fails(400, "input[1] must be a list", "/v1/embeddings", {"input": [[1], "a"]})

    def test_prefix(self):
        self.assertEqual(floats(self.good("/embed", {"inputs": "a meal"})[0]), embed_rows(BIN, ["query: a meal"], "--normalize")[0])
        self.assertEqual(self.good("/v1/embeddings", {"input": "a", "model": "mine"})["model"], "bert")

    def test_truncate_by_default(self):
        self.assertEqual(self.good("/v1/embeddings", {"input": LONG})["truncated"], [0])
        self.fails(422, "the limit is 128", "/v1/embeddings", {"input": LONG, "truncate": False})

    def test_sparse(self):
        got = self.good("/embed_sparse", {"inputs": ["a meal", "it rains"]})
        self.assertEqual(len(got), 2)
        for row in got:
            self.assertTrue(row)
            self.assertEqual([w["index"] for w in row], sorted({w["index"] for w in row}))
            self.assertTrue(all(w["value"] > 0 for w in row))
        out = run("fill-mask", "-m", str(MODELS / "bert.gguf"), "-k", "1", "--json", "query: [MASK]")
        best = json.loads(out)["masks"][0][0]["id"]
        row = self.good("/embed_sparse", {"inputs": "[MASK]"})[0]
        self.assertIn(best, [w["index"] for w in row])


class Files(ServerTest):
    def test_files(self):
        r = self.s.get("/openapi.json").json
        served = {line.split('"')[3] for line in self.s.get("/metrics").bytes.decode().splitlines() if line.startswith("mra_requests_total")}
        self.assertLessEqual(served, set(r["paths"]))
        for path, methods in r["paths"].items():
            for method in methods:
                self.assertNotIn(self.s.request(method.upper(), path).status, (404, 405), path)
        page = self.s.get("/")
        self.assertTrue(page.headers["Content-Type"].startswith("text/html"))
        self.assertNotIn(b"http://", page.bytes.replace(b"http://www.w3.org", b""))
        self.assertNotIn(b"https://", page.bytes)

    def test_metrics(self):
        before = self.s.metric("mra_texts_total")
        self.good("/embed", {"inputs": ["a", "b", "c"]})
        self.assertEqual(self.s.metric("mra_texts_total"), before + 3)
        text = self.s.get("/metrics").bytes.decode()
        names = [line.rsplit(" ", 1)[0] for line in text.splitlines() if not line.startswith("#")]
        self.assertEqual(len(names), len(set(names)))
        self.assertIn('mra_requests_total{method="POST",route="/embed",status="200"}', names)


class CommandLine(unittest.TestCase):
    def run_server(self, *args: str) -> tuple:
        p = subprocess.run([f"{BIN}/mra-server", *args], capture_output=True, text=True, timeout=60)
        return p.returncode, p.stdout, p.stderr

    def test_usage(self):
        model = str(MODELS / "bert.gguf")
        rc, out, err = self.run_server("--help")
        self.assertEqual((rc, err), (0, ""))
        for option in ("--api-key-file", "--budget", "--frame", "--max-queue", "--threads"):
            self.assertIn(option, out)
        for option in ("--resume", "--dry-run", "--column"):
            self.assertNotIn(option, out)
        self.assertTrue(self.run_server("--version")[1].startswith("mra-server "))
        for rc, words, *args in ((2, "no model"), (2, "unknown option", "--resume", "x"), (2, "unexpected 'x'", "-m", model, "x"),
                                 (1, "none.gguf", "-m", "none.gguf"), (2, "--alias x: no -m", "--alias", "x"), (2, "two models are called bert", "-m", model, "-m", model),
                                 (1, "none.txt: No such file", "-m", model, "--api-key-file", "none.txt"), (1, "no key in it", "-m", model, "--api-key-file", "/dev/null"),
                                 (1, "--host no.such.host.invalid", "-m", model, "--host", "no.such.host.invalid"), (2, "--port", "-m", model, "--port", "70000"),
                                 (2, "--truncate chunk", "-m", model, "--truncate", "chunk"), (2, "exclude each other", "-m", model, "--prefix", "a", "--prompt", "b")):
            got, out, err = self.run_server(*args)
            self.assertEqual((got, out), (rc, ""), err)
            self.assertIn(words, err.splitlines()[-1])

    def test_port_in_use(self):
        with Server(BIN) as s:
            rc, _, err = self.run_server("-m", str(MODELS / "bert.gguf"), "--port", str(s.port))
            self.assertEqual(rc, 1)
            self.assertIn("Address already in use", err)


if __name__ == "__main__":
    BIN = sys.argv.pop(1)
    unittest.main()
