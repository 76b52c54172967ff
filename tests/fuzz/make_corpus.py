#!/usr/bin/env python3
"""Writes corpus/TARGET/NAME, what the fuzz targets start from: made of tests/golden, a few KB each.

    python tests/fuzz/make_corpus.py        (needs the package gguf)

Files named finding-* were found by a run and stay; all others are made again."""
from __future__ import annotations

import gzip
from pathlib import Path

from gguf import GGUFReader

HERE = Path(__file__).resolve().parent
GOLDEN = HERE.parent / "golden"
MODELS = ("models/bert", "models/mra", "models/mra-sparse", "models/xlm-roberta", "families/modernbert", "families/eurobert",
          "families/gte", "families/jina-v3", "families/nomic-llama-cpp", "families/distilbert")


def text(s: str) -> bytes:
    """A string as fuzz-tokenizer.c's take_str reads it."""
    data = s.encode()[:15]
    return bytes([len(data)]) + data


def vocabulary(kind: str, settings: bytes) -> bytes:
    """An input of fuzz-tokenizer.c."""
    tokens = {"bpe": ("<s>", "</s>", "<unk>", "a", "b", "c", "ab", "abc", "\u0120", "\u0120a"),
              "wordpiece": ("[UNK]", "[CLS]", "[SEP]", "[MASK]", "\u2581a", "\u2581caf", "e", "b", "\u25815", "\u2581!"),
              "unigram": ("<s>", "</s>", "<unk>", "\u2581", "\u2581a", "a", "b", "ab", "<mask>", "\u00e9")}[kind]
    data = bytes([0x7f, len(tokens)])
    for token in tokens:
        data += text(token) + bytes([3 if token[0] in "<[" else 1, 256 - len(token)])
    data += bytes([0, 1, 2, 2, 255, 8, 1])
    if kind == "bpe":
        data += bytes([3]) + text("a b") + text("ab c") + text("\u0120 a")
    if kind == "unigram":
        data += bytes([0])
    return data + settings + "a caf\u00e9 <s> abc  5!\t\u4e2d\u0301 ab".encode() + b"\xff\xf0\x9f\x98"


def gguf_head(name: str, fill: int, how: int, frame: int) -> bytes:
    """An input of gguf-input.c: keys and tensor shapes of a test model; the data is made up by the target."""
    path = GOLDEN / f"{name}.gguf"
    head = GGUFReader(path).data_offset
    size = path.stat().st_size - head
    return bytes([min(255, size // 2048 + 1), fill, how, frame]) + path.read_bytes()[:head]


def records() -> dict:
    jsonl = b'{"id": "a", "text": "one"}\n{"text": "two \\u00e9", "text_pair": "\\ud83d\\ude00"}\n{"id": 7, "text": 5}\n'
    csv = b'id,text\nx,"one, ""two""\nthree"\ny,\n'
    files = {"auto-jsonl": (0, jsonl), "jsonl": (2, jsonl), "json": (3, b'["one", {"id": 1, "text": "two"}, 5]'), "csv": (4, csv),
             "csv-plain": (4 | 16 | 32, csv), "tsv": (5, b"text\tid\na b\t1\n"), "text": (1, b"one\r\n\r\ntwo\xff\n"),
             "gzip": (0, gzip.compress(jsonl, mtime=0)), "whole": (64, b"a document\nof two lines"),
             "zstd": (0, bytes.fromhex("28b52ffd2004210000") + b"one\n")}
    return {name: bytes([how]) + data for name, (how, data) in files.items()}


def corpora() -> dict:
    heads = {name.split("/")[1]: gguf_head(name, i % 5, 1 + 2 * (i % 4) + 16 * (i % 8), i) for i, name in enumerate(MODELS)}
    settings = bytes([1, 3, 0, 2, 8, 2, 0, 2, 1, 2, 9, 3, 0, 62, 1, 3, 0, 0, 0, 5, 0, 62, 1, 63, 1, 5, 0, 0, 1, 1, 1, 2, 100, 1])
    prose = (GOLDEN / "prose.txt").read_bytes()[:600]
    tokenizers = {kind: {"plain": vocabulary(kind, b"\0"), "settings": vocabulary(kind, settings)} for kind in ("bpe", "wordpiece", "unigram")}
    return {
        **tokenizers,
        "gguf": heads,
        "quantize": {name: heads[name] for name in ("bert", "mra", "xlm-roberta", "eurobert")},
        "text": {f"{i}": bytes([i, 5 + 8 * i]) + prose[100 * i:][:200] + "\u00e9\u4e2d\U0001f600\u0301".encode() + b"\xe2\x96" for i in range(6)},
        "input": records(),
        "json": {"object": b'{"input": ["a", "b\\n\\u00e9"], "id": 12, "x": {"y": [1e5, -0.5, true, null]}}', "array": b'[[], {}, "\\ud800", 0]'},
        "npy": {name.split(".")[1]: (GOLDEN / "models" / f"{name}.npy").read_bytes() for name in ("bert.lengths", "bert.logits", "bert.ids")},
        "attn": {f"{i}": bytes([i, 7, 0, 0, 0, 0, i % 2, i % 3, 1, i % 2, i % 2, 1, 150, 0, 1, i % 8, 1, 1, 1, 1, 3]) for i in range(8)},
        "ops": {f"{i}": bytes([i]) + bytes((37 * j + i) % 251 for j in range(60)) for i in range(13)},
    }


def main() -> None:
    for target, files in corpora().items():
        folder = HERE / "corpus" / target
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            if not old.name.startswith("finding-"):
                old.unlink()
        for name, data in files.items():
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
