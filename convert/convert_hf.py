#!/usr/bin/env python3
"""Hugging Face folder -> GGUF.

    python convert/convert_hf.py FOLDER -o model.gguf --type f16

RoBERTa, XLM-RoBERTa, CamemBERT, BERT and MRA encoders with their masked-language-model and classification heads, and
sentence-transformers folders made of them. Exit status: 0, 1 for a folder that cannot be converted, 2 for wrong usage.
"""
from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from hf_gguf.packages import require

require("convert_hf.py", "numpy", "gguf")

from hf_gguf.checkpoint import open_checkpoint
from hf_gguf.config import read_config
from hf_gguf.errors import ConvertError, shown
from hf_gguf.metadata import build_metadata
from hf_gguf.sentence_transformers import read_modules
from hf_gguf.tensors import map_dense, map_tensors, map_token_heads
from hf_gguf.vocab import load_vocab, sentence_bert_lowercase
from hf_gguf.writer import write_gguf


class Progress:
    """A bar on stderr, redrawn at most ten times a second; nothing where stderr is not a terminal."""

    WIDTH = 30

    def __init__(self):
        self.on, self.last = sys.stderr.isatty(), 0.0

    def __call__(self, done: int, total: int, name: str) -> None:
        now = time.monotonic()
        if not self.on or (name and now - self.last < 0.1):
            return
        self.last = now
        filled = self.WIDTH * done // max(total, 1)
        bar = "#" * filled + "." * (self.WIDTH - filled)
        sys.stderr.write(f"\r\033[K[{bar}] {done / 1e6:.0f}/{total / 1e6:.0f} MB {name[:40]}" if name else "\r\033[K")
        sys.stderr.flush()

    def clear(self) -> None:
        if self.on:
            sys.stderr.write("\r\033[K")


def convert(folder: Path, out: Path, type_: str = "f16", extend_positions: int = 0, mlm: bool = True, name: str = "",
            progress=lambda done, total, name: None) -> tuple:
    """Converts a folder; returns (Config, number of tensors, size of the file)."""
    config = read_config(folder)
    n_ctx = extend_positions or config.n_ctx
    if extend_positions and not config.positions.n_rows:
        raise ConvertError(f"--extend-positions: {config.architecture} has no learnt positions")
    if n_ctx < config.n_ctx:
        raise ConvertError(f"--extend-positions {n_ctx} is fewer than the {config.n_ctx} positions of the model")
    embedding = read_modules(folder)
    vocab = load_vocab(folder, config.family, config.n_vocab)
    sentence_bert_lowercase(vocab, folder)
    outputs = map_tensors(open_checkpoint(folder), config, str(folder), n_ctx, mlm)
    outputs += map_dense(embedding, config.n_embd, str(folder)) + map_token_heads(folder, config.n_embd)
    has_mlm = any(o.name.startswith("mlm.") for o in outputs)
    name = name or folder.resolve().name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    meta = build_metadata(config, vocab, embedding, name, type_, n_ctx, has_mlm)
    if out.exists() and not out.is_file():  # renaming onto a device would replace it
        raise ConvertError(f"{out}: is not a regular file")
    return config, len(outputs), write_gguf(out, meta, outputs, type_, progress)


def one_line(value) -> str:
    """What can be printed everywhere."""
    return str(value).replace("\n", "\\n").encode("utf-8", "backslashreplace").decode()


def positive(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 1 << 20:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {1 << 20}")
    return int(text)


def text(value: str) -> str:
    if any(0xD800 <= ord(c) < 0xE000 for c in value):
        raise argparse.ArgumentTypeError(f"{shown(value)} is not UTF-8 text")
    return value


def main(argv=None) -> int:
    p = argparse.ArgumentParser(prog="convert_hf.py", description="Hugging Face folder -> GGUF for BERT-family encoders")
    p.add_argument("folder", type=Path, help="config.json, model.safetensors or pytorch_model.bin, tokenizer files")
    p.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="GGUF file to write")
    p.add_argument("--type", choices=("f32", "f16", "q8_0"), default="f16", help="of the weight matrices (default: f16)")
    p.add_argument("--extend-positions", type=positive, default=0, metavar="N",
                   help="repeat the learned positions up to N, as is done before training on longer texts")
    p.add_argument("--no-mlm", action="store_true", help="leave the masked-language-model head out; llama.cpp loads no file with it")
    p.add_argument("--name", type=text, default="", help="general.name (default: the folder's name)")
    args = p.parse_args(argv)
    progress = Progress()
    try:
        config, n_tensors, size = convert(args.folder, args.output, args.type, args.extend_positions, not args.no_mlm, args.name, progress)
    except ConvertError as e:
        progress.clear()
        print(f"convert_hf.py: error: {one_line(e)}", file=sys.stderr)
        return 1
    except OSError as e:  # a name too long, a folder that may not be read, ...
        progress.clear()
        print(f"convert_hf.py: error: {one_line(shown(e.filename))}: {e.strerror}", file=sys.stderr)
        return 1
    except (ValueError, OverflowError, RecursionError, MemoryError) as e:  # numbers and texts that nobody checked
        progress.clear()
        print(f"convert_hf.py: error: {args.folder}: unexpected content ({type(e).__name__}: {one_line(e)})", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        progress.clear()
        print("convert_hf.py: interrupted", file=sys.stderr)
        return 130
    print(f"{one_line(args.output)}: {config.architecture}, {n_tensors} tensors, {args.type}, {size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
