"""mra-tag against transformers' token-classification pipeline: the same labels, bytes and scores (golden/tags/entities.json).

    python tests/test_tag.py BIN        BIN: the folder of mra-tag
"""
from __future__ import annotations

import json
import subprocess
import sys
import unittest
from pathlib import Path

BIN = ""
TAGS = Path(__file__).resolve().parent / "golden" / "tags"
AGGREGATIONS = ("none", "simple", "first", "average", "max")


def tag(model: str, *args: str, texts=()) -> subprocess.CompletedProcess:
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    source = ["-f", "-", "--input", "jsonl"] if texts else []
    return subprocess.run([f"{BIN}/mra-tag", "-t", "1", "-m", str(TAGS / f"{model}.gguf"), *source, *args], input=lines, capture_output=True, text=True)


class Tags(unittest.TestCase):
    def entities(self, model: str, texts: list, *args: str) -> list:
        p = tag(model, "--json", *args, texts=texts)
        self.assertEqual(p.returncode, 0, p.stderr)
        return [json.loads(line)["entities"] for line in p.stdout.splitlines()]

    def test_as_transformers(self):
        for model, cases in json.loads((TAGS / "entities.json").read_text()).items():
            texts = [case["text"] for case in cases]
            for how in AGGREGATIONS:
                found = self.entities(model, texts, "--aggregation", how)
                self.assertEqual(len(found), len(cases))
                for case, entities in zip(cases, found):
                    with self.subTest(model=model, how=how, text=case["text"]):
                        self.assertEqual([[e["label"], e["start"], e["end"]] for e in entities], [[e[0], *e[2:]] for e in case[how]])
                        for e, (_, score, start, end) in zip(entities, case[how]):
                            self.assertLess(abs(e["score"] - score), 2e-3)    # weights are f16, which ggml's products round to
                            self.assertEqual(e["text"], case["text"].encode()[start:end].decode("utf-8", "replace"))

    def test_ignore(self):
        text = ["The rain in Spain stays mainly in the plain."]
        every = self.entities("bert", text, "--aggregation", "none", "--ignore", "")[0]
        self.assertEqual([e for e in every if e["label"] != "O"], self.entities("bert", text, "--aggregation", "none")[0])
        self.assertIn("O", {e["label"] for e in every})

    def test_prefix_is_not_tagged(self):
        """Offsets are of the text as it was given, and what was put before it is not in the output."""
        for e in self.entities("bert", ["rain in Spain"], "--prefix", "The plain: ", "--ignore", "", "--aggregation", "none")[0]:
            self.assertEqual(e["text"], "rain in Spain"[e["start"]:e["end"]])
            self.assertGreater(e["end"], 0)

    def test_text_output(self):
        p = tag("bert", "--aggregation", "none", "--ignore", "", "a\tb")
        rows = [line.split("\t") for line in p.stdout.splitlines()]
        self.assertTrue(rows and all(len(row) == 6 and row[0] == "1" for row in rows), p.stdout)
        self.assertEqual([(row[3], row[4], row[5]) for row in rows][0][:2], ("0", "1"))

    def test_refusals(self):
        p = tag("bert", "--aggregation", "most", "a")
        self.assertEqual((p.returncode, p.stderr.count("\n")), (2, 1), p.stderr)
        p = tag("../heads/nomic-cls", "a")
        self.assertEqual(p.returncode, 1)
        self.assertIn("no token classifier; it labels whole texts: mra-classify", p.stderr)
        p = subprocess.run([f"{BIN}/mra-classify", "-m", str(TAGS / "bert.gguf"), "a"], capture_output=True, text=True)
        self.assertEqual(p.returncode, 1)
        self.assertIn("no classifier; it labels tokens: mra-tag", p.stderr)


if __name__ == "__main__":
    BIN = sys.argv.pop(1)
    unittest.main()
