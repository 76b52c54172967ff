"""mra-server through the clients that people have: openai, langchain-openai, huggingface_hub, cohere, requests; and
schemathesis, which makes requests from the OpenAPI file and checks the replies against it.

    tests/clients/run.sh BUILD
"""
from __future__ import annotations

import os
import struct
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

import cohere
import openai
import requests
import tiktoken
from huggingface_hub import InferenceClient
from langchain_openai import OpenAIEmbeddings

from server_client import Server, embed_rows

BIN = ""
TEXTS = ["a man is eating", "someone has a meal", "it rains"]


def rows(texts: list, *args: str) -> list:
    return [list(struct.unpack("<64f", r)) for r in embed_rows(BIN, texts, "--normalize", *args)]


class Clients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Server(BIN, "--api-key", "secret")
        cls.url = f"http://127.0.0.1:{cls.s.port}"

    @classmethod
    def tearDownClass(cls):
        with cls.s:
            pass

    def test_openai(self):
        client = openai.OpenAI(base_url=self.url + "/v1", api_key="secret")
        r = client.embeddings.create(model="bert", input=TEXTS)  # base64 inside
        self.assertEqual([d.embedding for d in r.data], rows(TEXTS))
        self.assertEqual(r.usage.total_tokens, r.usage.prompt_tokens)
        r = client.embeddings.create(model="bert", input=TEXTS[0], encoding_format="float", dimensions=8, extra_body={"truncate": True})
        self.assertEqual(len(r.data[0].embedding), 8)
        self.assertEqual([m.id for m in client.models.list()], ["bert", "xlm-roberta"])
        with self.assertRaises(openai.NotFoundError) as e:
            client.embeddings.create(model="gpt", input="a")
        self.assertIn("there is bert", e.exception.message)
        with self.assertRaises(openai.UnprocessableEntityError) as e:
            client.embeddings.create(model="bert", input="a " * 500)
        self.assertIn("502 tokens, the limit is 128", e.exception.message)
        with self.assertRaises(openai.AuthenticationError):
            openai.OpenAI(base_url=self.url + "/v1", api_key="wrong").embeddings.create(model="bert", input="a")

    def test_langchain(self):
        settings = {"model": "bert", "base_url": self.url + "/v1", "api_key": "secret"}
        good = OpenAIEmbeddings(check_embedding_ctx_length=False, **settings)
        self.assertEqual(good.embed_documents(TEXTS), rows(TEXTS))
        self.assertEqual(good.embed_query(TEXTS[0]), rows(TEXTS[:1])[0])
        # As it is by default it sends ids of OpenAI's tokenizer, which it would fetch: this one of single bytes will do.
        bytes_only = tiktoken.Encoding("bytes", pat_str=".", mergeable_ranks={bytes([i]): i for i in range(256)}, special_tokens={})
        with mock.patch("tiktoken.get_encoding", return_value=bytes_only), mock.patch("tiktoken.encoding_for_model", return_value=bytes_only):
            with self.assertRaises(openai.BadRequestError) as e:
                OpenAIEmbeddings(**settings).embed_query("a")
        self.assertIn("check_embedding_ctx_length=False", e.exception.message)

    def test_huggingface(self):
        r = InferenceClient(model=self.url + "/embed", token="secret").feature_extraction(TEXTS[0], normalize=True, truncate=True)
        self.assertEqual(r.tolist(), rows(TEXTS[:1]))
        r = InferenceClient(model=self.url + "/similarity", token="secret").sentence_similarity(TEXTS[0], other_sentences=TEXTS)
        self.assertAlmostEqual(r[0], 1, places=5)
        r = InferenceClient(model=self.url, token="secret").text_classification("a", top_k=2)  # POST /
        self.assertTrue(r)

    def test_cohere(self):
        for client in (cohere.ClientV2(base_url=self.url, api_key="secret"), cohere.Client(base_url=self.url, api_key="secret")):
            r = client.rerank(model="xlm-roberta", query="a man eats", documents=TEXTS, top_n=2)
            self.assertEqual(len(r.results), 2)
            self.assertGreaterEqual(r.results[0].relevance_score, r.results[1].relevance_score)

    def test_requests(self):
        session = requests.Session()
        session.headers["Authorization"] = "Bearer secret"
        r = session.post(self.url + "/rerank", json={"query": "a", "texts": TEXTS, "return_text": True}).json()
        self.assertEqual({x["text"] for x in r}, set(TEXTS))
        for _ in range(3):  # one connection
            got = session.post(self.url + "/embed", json={"inputs": TEXTS}).json()
            self.assertEqual([list(struct.unpack("<64f", struct.pack("<64f", *x))) for x in got], rows(TEXTS))

    def test_schemathesis(self):
        command = [str(Path(sys.executable).parent / "schemathesis"), "run", self.url + "/openapi.json", "-H", "Authorization: Bearer secret",
                   # which prompts and how many dimensions there are is the model's to say, not the schema's
                   "--exclude-checks", "positive_data_acceptance", "--max-examples", os.environ.get("EXAMPLES", "40"), "--checks", "all", "--generation-database", "none", "--seed", "1"]
        p = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(p.returncode, 0, p.stdout[-8000:] + p.stderr[-2000:])
        print(p.stdout[p.stdout.rfind("SUMMARY"):])


if __name__ == "__main__":
    BIN = sys.argv.pop(1)
    unittest.main()
