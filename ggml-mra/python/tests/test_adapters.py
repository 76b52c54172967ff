"""The adapters as README.md shows them, with the real packages.      make test-python-adapters"""
from __future__ import annotations

import asyncio
import re
import unittest
from pathlib import Path

import chromadb
import numpy as np
from llama_index.core import Document, VectorStoreIndex
from langchain_core.vectorstores import InMemoryVectorStore

import ggml_mra

HERE = Path(__file__).resolve().parent
BERT = str(HERE.parents[2] / "tests/golden/models/bert.gguf")
TEXTS = ["a man is eating", "someone has a meal", "it rains", "x y z"]
PROMPTS = {"query": "find: ", "document": "text: "}
shown: dict = {"ggml_mra": ggml_mra}
for block in re.findall(r"^[A-Za-z]+:\n\n```python\n(.*?)```", (HERE.parent / "README.md").read_text(), re.S | re.M):
    exec(block, shown)


class Adapters(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        e = ggml_mra.Encoder(BERT, prompts=PROMPTS)
        cls.documents = e.encode_document(TEXTS, normalize_embeddings=True)
        cls.query = e.encode_query("it rains", normalize_embeddings=True)
        cls.best = TEXTS[int(np.argmax(cls.documents @ cls.query))]

    def test_langchain(self):
        a = shown["MraEmbeddings"](BERT, prompts=PROMPTS)
        np.testing.assert_array_equal(np.float32(a.embed_documents(TEXTS)), self.documents)
        np.testing.assert_array_equal(np.float32(a.embed_query("it rains")), self.query)
        store = InMemoryVectorStore(a)
        store.add_texts(TEXTS)
        self.assertEqual(store.similarity_search("it rains", k=1)[0].page_content, self.best)

    def test_llama_index(self):
        a = shown["MraEmbedding"](BERT, prompts=PROMPTS)
        np.testing.assert_array_equal(np.float32(a.get_text_embedding_batch(TEXTS)), self.documents)
        np.testing.assert_array_equal(np.float32(a.get_text_embedding(TEXTS[1])), self.documents[1])
        np.testing.assert_array_equal(np.float32(a.get_query_embedding("it rains")), self.query)
        np.testing.assert_array_equal(np.float32(asyncio.run(a.aget_query_embedding("it rains"))), self.query)
        index = VectorStoreIndex.from_documents([Document(text=t) for t in TEXTS], embed_model=a, transformations=[])
        self.assertEqual(index.as_retriever(similarity_top_k=1).retrieve("it rains")[0].text, self.best)

    def test_chroma(self):
        a = shown["MraEmbeddingFunction"](BERT, prompts=PROMPTS)
        c = chromadb.EphemeralClient().create_collection("texts", embedding_function=a)
        c.add(ids=[str(i) for i in range(len(TEXTS))], documents=TEXTS)
        np.testing.assert_array_equal(np.float32(c.get(include=["embeddings"])["embeddings"]), self.documents)
        self.assertEqual(c.query(query_texts=["it rains"], n_results=1)["documents"], [[self.best]])


if __name__ == "__main__":
    unittest.main()
