"""docs/scripts/bench_peers.py with made-up contenders: what it reports, what it leaves out, what it keeps. Needs no PyTorch and no llama.cpp."""
from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent.parent / "docs" / "scripts"
sys.path.insert(0, str(SCRIPTS))

from peers_table import closeness
from plot_peers import LETTER, LINE, draw, overlap, place

# Plays every program that the script starts, and notes each in the file `started`. Speeds are known: others take 4 units per token, ours 1.
FAKE = """#!%s
import json, os, sys, time
from pathlib import Path
name, args, fault = os.path.basename(sys.argv[0]), sys.argv[1:], os.environ.get("FAULT", "")
started = Path(sys.argv[0]).parent / "started"
def hf(folder):
    Path(folder).mkdir()
    Path(folder, "model.safetensors").touch()
    Path(folder, "config.json").write_text('{"vocab_size": 100}')
if args[0].endswith("make_random.py"): hf(args[1])
elif "fetch_" in args[0]:
    hf(args[1])
    Path(args[1], "1_Pooling").mkdir()
    Path(args[1], "1_Pooling", "config.json").write_text(json.dumps({"pooling_mode_cls_token": "granite" in args[0]}))
elif args[0].endswith("convert_hf.py"): Path(args[3]).touch()
elif args[0].endswith("peers_convert.py"):
    if fault == "convert " + args[1]: sys.exit(3)
    if args[1] == "tokens": Path(args[3]).write_text(json.dumps({"calibration": [[11]], "measured": [[11, 12], [13, 14, 15]]}))
    elif args[1] in ("texts", "onnx"): Path(args[-1]).touch()
    else: Path(args[3]).mkdir()
elif args[0].endswith("peers_worker.py") or name == "mra-bench":
    kind, file, pooling = ("ours", args[2], "") if name == "mra-bench" else (args[1], args[2], args[5])
    if fault == "start " + kind: sys.exit(7)
    with open(started, "a") as f: f.write(kind + "\\n")
    print(json.dumps({"about": kind + " 1.0"}), flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        pooling = job.get("pooling", pooling)
        assert min(job["ids"]) >= 10 and max(job["ids"]) < 100
        assert pooling == ("cls" if "granite" in file else "mean"), (pooling, file)
        if fault == "error " + kind: print('{"error": "no luck"}', flush=True); continue
        if fault == "hang " + kind: time.sleep(60)
        unit = 1 if kind == "ours" else 4
        away = 0.5 if fault == "wrong " + kind else 0.1 * len(job["ids"]) if kind == "onnxruntime-int8" and len(job["ids"]) < 4 else 0
        print(json.dumps({"seconds": unit * len(job["ids"]) * job.get("budget", 1), "peak_mb": 5, "embedding": [1, away]}), flush=True)
"""
N_ALL = 10


class Peers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.build = Path(self.folder.name) / "build"
        self.out = Path(self.folder.name) / "out"
        (self.build / "bin").mkdir(parents=True)
        for name in ("python", "mra-bench", "mra-quantize"):
            path = self.build / "bin" / name
            path.write_text(FAKE % sys.executable)
            path.chmod(0o755)

    def tearDown(self):
        self.folder.cleanup()

    def run_script(self, *args, fault=""):
        (self.build / "bin/started").write_text("")
        command = [sys.executable, "-B", str(SCRIPTS / "bench_peers.py"), str(self.build), "--python", str(self.build / "bin/python"), "-o", str(self.out), *args]
        done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, FAULT=fault))
        self.assertNotIn("Traceback", done.stderr)
        path = self.out / "peers.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return done, rows

    def started(self):
        return (self.build / "bin/started").read_text().split()

    def test_time(self):
        done, rows = self.run_script("--part", "time", "-n", "4096,512", "--max-seconds", "1e6")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([r["n"] for r in rows], [512] * N_ALL + [4096] * N_ALL)
        self.assertEqual([r["seconds"] / r["n"] for r in rows], ([4] * 7 + [1, 1, 0.25]) * 2)
        self.assertEqual([r["reps"] for r in rows], [1] * 20, "a run above --seconds is the only one")
        self.assertEqual({round(r["cosine"], 6) for r in rows}, {1})
        self.assertIn("| OpenVINO int8 | 2.05e+03 | 4.00x | 5 | 1.64e+04 | 4.00x | 5 |", done.stdout)
        self.assertIn("- PyTorch float: torch-fp32 1.0", done.stdout)
        self.assertIn("nothing has both", (self.out / "peers.svg").read_text())

    def test_another_model(self):
        done, rows = self.run_script("--model", "modernbert-base", "--max-seconds", "1e6", "--only", "torch-bf16,ours-int8")
        self.assertEqual((done.returncode, rows), (0, []), done.stderr)
        rows = [json.loads(line) for line in (self.out / "peers-modernbert-base.jsonl").read_text().splitlines()]
        self.assertEqual([(r["n"], r["key"]) for r in rows], [(n, k) for n in (512, 4096, 8192) for k in ("torch-bf16", "ours-int8")])
        self.assertIn("of ModernBERT-base's shape", (self.out / "peers-modernbert-base.md").read_text())
        self.assertEqual(sorted(p.name for p in self.out.iterdir()), ["peers-modernbert-base.jsonl", "peers-modernbert-base.md"])
        self.assertEqual(sorted(p.name for p in (self.build / "peers").iterdir()), ["modernbert-base-8192"])

    def test_turns(self):
        _, rows = self.run_script("--part", "time", "-n", "64", "--seconds", "1e6", "--reps", "3")
        self.assertEqual([r["reps"] for r in rows], [3] * N_ALL)

    def test_closeness(self):
        done, rows = self.run_script("--part", "closeness")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([r["model"] for r in rows], ["all-MiniLM-L6-v2"] * N_ALL + ["granite-embedding-30m-english"] * N_ALL)
        far = next(r for r in rows if r["key"] == "onnxruntime-int8")
        self.assertAlmostEqual(far["cosine_mean"], (1 / 1.04**0.5 + 1 / 1.09**0.5) / 2)
        self.assertAlmostEqual(far["cosine_min"], 1 / 1.09**0.5)
        self.assertEqual({r["texts"] for r in rows}, {2})
        self.assertIn("| onnxruntime int8 | 0.9692 0.9578 | 0.9692 0.9578 |", (self.out / "peers.md").read_text())
        self.assertIn("flatters", (self.out / "peers.md").read_text())

    def test_both_parts_make_the_figure(self):
        self.run_script("-n", "64", "--max-seconds", "1e6")
        svg = (self.out / "peers.svg").read_text()
        self.assertEqual(svg.count('class="name"'), N_ALL)
        self.assertIn("ggml-mra q8_0, exact int8  64 s", svg)

    def test_leaves_out_what_takes_too_long(self):
        done, rows = self.run_script("--part", "time", "-n", "64,512", "--max-seconds", "5000")
        self.assertEqual([r["key"] for r in rows if r["n"] == 512], ["ours-float", "ours-int8", "ours-sorted"], done.stderr)

    def test_only_and_skip(self):
        _, rows = self.run_script("--part", "time", "-n", "64", "--only", "ours-int8,llama")
        self.assertEqual([r["contender"] for r in rows], ["llama.cpp Q8_0", "ggml-mra q8_0, exact int8"])
        _, rows = self.run_script("--part", "time", "-n", "64", "--skip", "llama,ours", "--fresh")
        self.assertEqual([r["key"] for r in rows], ["torch-fp32", "torch-bf16", "torch-int8", "openvino", "openvino-int8", "onnxruntime-int8"])

    def test_one_that_fails_does_not_lose_the_rest(self):
        for fault, says, lost in (("convert openvino-int8", "OpenVINO int8, 64 tokens: failed: ", 1),  # first: later its file is there
                                  ("wrong ours", "ggml-mra q8_0, exact int8, 64 tokens: computes something else than PyTorch float: cosine 0.8944", 3),
                                  ("wrong llama", "llama.cpp Q8_0, 64 tokens: computes something else", 1),
                                  ("start llama", "llama.cpp Q8_0, 64 tokens: its process ended with 7", 1),
                                  ("error torch-int8", "PyTorch int8, 64 tokens: no luck", 1),
                                  ("start openvino", "OpenVINO, 64 tokens: its process ended with 7", 1)):
            done, rows = self.run_script("--part", "time", "-n", "64", "--fresh", fault=fault)
            self.assertEqual(done.returncode, 1, fault)
            self.assertIn(says, done.stderr)
            self.assertEqual(len(rows), N_ALL - lost, fault)
        done, rows = self.run_script("--part", "time", "-n", "64")
        self.assertEqual((done.returncode, len(rows)), (0, N_ALL), done.stderr)
        self.assertEqual(self.started(), ["openvino"], "only what was missing")
        self.assertIn("| OpenVINO | 256* |", done.stdout)

    def test_one_that_hangs(self):
        done, rows = self.run_script("--part", "time", "-n", "64", "--only", "openvino,ours-int8", "--max-seconds", "5", fault="hang openvino")
        self.assertEqual(done.returncode, 1)
        self.assertIn("OpenVINO, 64 tokens: no answer in 5 s", done.stderr)
        self.assertNotIn("openvino", [r["key"] for r in rows])

    def test_reference_that_fails_ends_it(self):
        done, rows = self.run_script("--part", "time", "-n", "64", fault="start torch-fp32")
        self.assertEqual((done.returncode, rows), (1, []))
        self.assertIn("PyTorch float, which all are compared with: its process ended with 7", done.stderr)

    def test_keeps_what_still_holds(self):
        self.run_script("-n", "64", "--max-seconds", "1e6")
        _, rows = self.run_script("-n", "64", "--max-seconds", "1e6")
        self.assertEqual((self.started(), len(rows)), ([], 3 * N_ALL))
        with open(self.build / "bin/mra-bench", "a") as f:
            f.write("# another version\n")
        _, rows = self.run_script("-n", "64", "--max-seconds", "1e6")
        self.assertEqual((self.started(), len(rows)), (["ours"] * 9, 3 * N_ALL), "ours again, the others not")
        _, rows = self.run_script("--part", "time", "-n", "64", "--max-seconds", "1e6", "-t", "1")
        self.assertEqual((len(self.started()), len(rows)), (N_ALL, N_ALL), "another number of threads is another machine")

    def test_usage(self):
        for args, code, says in ((("-n", "0"), 2, "list of lengths"), (("--only", "jax"), 2, "jax"), (("--skip", "x"), 2, "x: not one of"), (("-t", "0"), 2, "positive")):
            done, _ = self.run_script(*args)
            self.assertEqual(done.returncode, code, args)
            self.assertIn(says, done.stderr)
        (self.build / "bin/mra-bench").unlink()
        done, _ = self.run_script()
        self.assertEqual(done.returncode, 1)
        self.assertIn("run make first", done.stderr)


class Figure(unittest.TestCase):
    def test_names_cover_nothing(self):
        for at in ([(100 + i, 200 + i) for i in range(9)], [(600, 100 + 3 * i) for i in range(9)], [(840, 80), (840, 390), (90, 390), (90, 80)]):
            boxes = place(at, [LETTER * 30] * len(at), (80, 70, 876, 394))
            for i, a in enumerate(boxes):
                self.assertTrue(80 <= a[0] and 70 <= a[1] and a[2] <= 876 and a[3] <= 394, a)
                self.assertFalse(any(overlap(a, b) for b in boxes[:i]), (a, boxes[:i]))
                self.assertFalse(any(overlap(a, (x - 5, y - 5, x + 5, y + 5)) for x, y in at), a)

    def test_names_of_the_published_figure(self):
        path = SCRIPTS.parent / "peers.jsonl"
        svg = draw([json.loads(line) for line in path.read_text().splitlines()])
        boxes = []
        for x, y, anchor, label in re.findall(r'class="name" x="([\d.]+)" y="([\d.]+)" text-anchor="(\w+)".*?>(.*?)</text>', svg):
            left = float(x) - {"start": 0, "middle": 0.5, "end": 1}[anchor] * LETTER * len(label)
            boxes.append((left, float(y) - LINE + 4, left + LETTER * len(label), float(y) + 4))
        for i, a in enumerate(boxes):
            self.assertFalse(any(overlap(a, b) for b in boxes[:i]), svg)

    def test_digits(self):
        self.assertEqual([closeness(x) for x in (0.8621, 0.99987, 0.9999991, 1 + 1e-9)], ["0.8621", "0.99987", "0.999999", "1.000000"])


if __name__ == "__main__":
    unittest.main()
