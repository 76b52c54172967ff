"""What bench_peers.py needs before it can measure, made once under BUILD/peers: a venv, models in everyone's formats, tokens of texts."""
from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import venv
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent
ROOT = SCRIPTS.parent.parent
REQUIREMENTS = SCRIPTS / "peers-requirements.txt"
FETCH = {"granite-embedding-30m-english": "fetch_granite.py", "all-MiniLM-L6-v2": "fetch_minilm.py"}
REAL = list(FETCH)  # models whose embeddings are compared; the timed one has random weights


class PeerError(Exception):
    pass


def run(*command) -> None:
    if subprocess.run([str(c) for c in command]).returncode != 0:
        raise PeerError(f"failed: {' '.join(str(c) for c in command)}")


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def prepare_venv(folder: Path) -> Path:
    python = folder / "bin" / "python"
    stamp = folder / "installed.txt"
    if not stamp.exists() or stamp.read_text() != REQUIREMENTS.read_text():
        print(f"installing docs/scripts/peers-requirements.txt into {folder} (several GB; llama.cpp is compiled)", file=sys.stderr)
        venv.create(folder, with_pip=True)
        run(python, "-m", "pip", "install", "-q", "-r", REQUIREMENTS)
        stamp.write_text(REQUIREMENTS.read_text())
    return python


class Model:
    """One model in the format of every kind of contender; a file is made when it is first asked for, and is never incomplete."""

    def __init__(self, name: str, build: Path, python: Path, positions: int):
        self.name, self.build, self.python, self.positions = name, build, python, positions
        self.folder = build / "peers" / (name if name in FETCH else f"{name}-{positions}")
        self.folder.mkdir(parents=True, exist_ok=True)

    def make(self, target: Path, *command) -> Path:
        """Runs the command, in which PART is the file to write, unless target is there."""
        if not target.exists():
            print(f"{self.name}: making {target.name}", file=sys.stderr)
            part = target.with_name("part-" + target.name)
            run(*(part if c == "PART" else c for c in command))
            part.replace(target)
        return target

    def hf(self) -> Path:
        hf = self.folder / "hf"
        if not (hf / "model.safetensors").exists():
            if self.name in FETCH:
                run(self.python, ROOT / "convert" / FETCH[self.name], hf)
            else:
                run(self.python, ROOT / "convert/make_random.py", hf, "--shape", self.name, "--positions", self.positions)
        return hf

    def gguf(self, name: str, type_: str) -> Path:
        return self.make(self.folder / f"{name}.gguf", self.python, ROOT / "convert/convert_hf.py", self.hf(), "-o", "PART", "--type", type_, "--no-mlm")

    def converted(self, kind: str, suffix: str) -> Path:
        onnx = self.make(self.folder / "float.onnx", self.python, SCRIPTS / "peers_convert.py", "onnx", self.hf(), "PART")
        if kind == "onnx":
            return onnx
        # OpenVINO writes two files, so a folder is what becomes complete at once
        folder = self.make(self.folder / kind, self.python, SCRIPTS / "peers_convert.py", kind, onnx, "PART", self.tokens())
        return folder / f"model.{suffix}"

    def file(self, key: str) -> Path:
        """for a contender; llama.cpp gets its usual Q8_0 file, without what mra-quantize may add"""
        if key.startswith("torch"):
            return self.hf()
        if key == "llama":
            return self.gguf("llama-q8_0", "q8_0")
        if key == "ours-float":
            return self.gguf("f16", "f16")
        if key.startswith("ours"):
            q8 = self.folder / "q8_0.gguf"
            run(self.build / "bin/mra-quantize", self.gguf("f32", "f32"), q8, "q8_0")  # every time: the program may have changed
            return q8
        return {"openvino": lambda: self.converted("onnx", ""), "openvino-int8": lambda: self.converted(key, "xml"),
                "onnxruntime-int8": lambda: self.converted(key, "onnx")}[key]()

    def tokens(self) -> Path:
        """{"calibration": lists of ids, "measured": lists of ids}; of the timed model random ones"""
        return self.make(self.folder / "tokens.json", self.python, SCRIPTS / "peers_convert.py", "tokens", self.hf(), "PART", self.texts())

    def texts(self) -> Path:
        return self.make(self.build / "peers/texts.jsonl", self.python, SCRIPTS / "peers_convert.py", "texts", "PART")

    def config(self, key: str):
        return json.loads((self.hf() / "config.json").read_text())[key]

    def pooling(self) -> str:
        path = self.hf() / "1_Pooling/config.json"
        return "cls" if path.exists() and json.loads(path.read_text()).get("pooling_mode_cls_token") else "mean"
