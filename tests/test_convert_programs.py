"""What the converter keeps besides weights and tokenizer, as the programs use it: prompts, one label, a file without pooler.

    python tests/test_convert_programs.py BIN        BIN: the folder of mra-embed, mra-classify, mra-rerank
"""
from __future__ import annotations

import json
import math
import subprocess
import sys
import unittest

from convert_helpers import FolderTest, convert_hf, edit_json

from hf_gguf import tensors

BIN = ""
PROMPTS = {"query": "query: ", "none": ""}


class Programs(FolderTest):
    def run_program(self, program: str, *args: str, status: int = 0) -> tuple:
        p = subprocess.run([f"{BIN}/mra-{program}", "-t", "1", "-m", str(self.out), *args], capture_output=True, text=True)
        self.assertEqual(p.returncode, status, p.stderr)
        return p.stdout, p.stderr

    def embed(self, *args: str) -> list:
        return json.loads(self.run_program("embed", "--json", *args)[0])["embedding"]

    def sentence_transformer(self, **settings) -> None:
        self.make("bert", "none")
        kinds = (("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize"))
        (self.folder / "modules.json").write_text(json.dumps(
            [{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"} for i, (kind, path) in enumerate(kinds)]))
        (self.folder / "1_Pooling").mkdir()
        (self.folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
        (self.folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": PROMPTS, **settings}))

    def test_prompts(self):
        self.sentence_transformer(default_prompt_name=None)
        convert_hf.convert(self.folder, self.out, "f32")
        plain, query = self.embed("a text"), self.embed("--prefix", "query: ", "a text")
        self.assertNotEqual(plain, query)
        self.assertEqual(self.embed("--prompt", "query", "a text"), query)
        self.assertEqual(self.embed("--prompt", "none", "a text"), plain)
        self.assertIn("it has query, none", self.run_program("embed", "--prompt", "nobody", "a text", status=1)[1])
        self.assertIn("exclude", self.run_program("embed", "--prompt", "query", "--prefix", "x", "a text", status=2)[1])

    def test_default_prompt(self):
        self.sentence_transformer(default_prompt_name="query")
        convert_hf.convert(self.folder, self.out, "f32")
        query = self.embed("--prefix", "query: ", "a text")
        self.assertEqual(self.embed("a text"), query)
        chunked = self.embed("--truncate", "chunk", "a text")
        self.assertLess(max(abs(a - b) for a, b in zip(chunked, query)), 1e-5)
        self.assertNotEqual(self.embed("--prefix", "", "a text"), query)
        score = float(self.run_program("rerank", "-q", "a text", "a text")[0].split("\t")[0])
        self.assertAlmostEqual(score, 1.0, 3)

    def test_bad_prompts(self):
        for settings, word in (({"default_prompt_name": "x"}, "default_prompt_name = 'x'"), ({"default_prompt_name": 3}, "default_prompt_name = 3"),
                               ({"prompts": {"a": 1}}, "prompts = {'a': 1}"), ({"prompts": ["a"]}, "prompts = ['a']"),
                               ({"prompts": {"a": "\0"}}, "prompts")):
            with self.subTest(word):
                self.sentence_transformer(**settings)
                self.assert_refused("config_sentence_transformers.json", word)
        self.sentence_transformer()
        edit_json(self.folder / "1_Pooling" / "config.json", include_prompt=False)
        self.assert_refused("include_prompt = False")

    def test_one_label_is_a_sigmoid(self):
        self.make("roberta", "classifier", labels=1)
        convert_hf.convert(self.folder, self.out, "f32")
        score = lambda *args: json.loads(self.run_program("classify", "--json", *args, "a text")[0])["labels"][0]["score"]
        self.assertAlmostEqual(score(), 1 / (1 + math.exp(-score("--logits"))), 5)

    def test_a_file_without_pooler_says_so(self):
        self.make("bert", "classifier", labels=3)
        convert_hf.convert(self.folder, self.out, "f32")
        self.assertNotIn("pooler", self.run_program("classify", "a text")[1])
        def output_only(m, spelling, prefix):
            m.take("cls.weight", "classifier.weight", (3, m.config.n_embd))
            m.take("cls.bias", "classifier.bias", (3,))

        whole, tensors._classifier = tensors._classifier, output_only
        try:
            convert_hf.convert(self.folder, self.out, "f32")
        finally:
            tensors._classifier = whole
        self.assertIn("has no pooler", self.run_program("classify", "a text")[1])


if __name__ == "__main__":
    BIN = sys.argv.pop(1)
    unittest.main()
