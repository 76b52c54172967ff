"""Settings of tokenizer.json, converted and run by the C tokenizers, against what Hugging Face's tokenizers make of them.

    python tests/test_convert_tokenizer.py PIPE [--table]       PIPE: the program tokenizer-pipe; --table prints the table of ../convert/README.md
"""
from __future__ import annotations

import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from convert_helpers import convert_hf, make_model, tiny

import tokenizer_variants as tv
from hf_gguf.errors import ConvertError

PIPE = ""
FAMILY = {"bpe": "roberta", "uncased": "bert", "cased": "bert", "unigram": "xlm-roberta"}


def convert_variant(name: str) -> Path:
    """A GGUF file with the tokenizer; the caller removes its folder."""
    data = tv.variant(name)
    folder = Path(tempfile.mkdtemp())
    model, out = folder / "model", folder / "out.gguf"
    make_model(model, tiny(FAMILY[tv.VARIANTS[name][0]], "none", vocab=max(280, tv.n_ids(data)), layers=1))
    (model / "tokenizer.json").write_text(tv.to_json(name), encoding="utf-8")
    try:
        convert_hf.convert(model, out, "f32")
    except ConvertError:
        shutil.rmtree(folder)
        raise
    return out


def pack(case: tuple) -> bytes:
    a, b, flags = case
    out = struct.pack("<ii", flags, len(a)) + a
    return out + (struct.pack("<i", -1) if b is None else struct.pack("<i", len(b)) + b)


def run_pipe(pipe: str, gguf: Path, cases: list) -> list:
    """[(ids, types)]; types are 0 without special tokens. Removes the file's folder."""
    p = subprocess.run([pipe, str(gguf)], input=b"".join(map(pack, cases)), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    shutil.rmtree(gguf.parent)
    if p.returncode:
        raise AssertionError(p.stderr.decode())
    out = []
    for line, case in zip(p.stdout.decode().split("\n"), cases):
        tokens = [tuple(map(int, t.split(":"))) for t in line.split(" ") if t]
        out.append(([t[0] for t in tokens], [t[3] if case[2] & tv.ADD_SPECIAL else 0 for t in tokens]))
    return out


def result(name: str, want: bytes, cases: list) -> tuple:
    """(number of strings that differ, the first of them and its ids) or (None, the refusal)"""
    try:
        got = run_pipe(PIPE, convert_variant(name), cases)
    except ConvertError as e:
        return None, str(e)
    wrong = [(c, g[0]) for i, (c, g) in enumerate(zip(cases, got)) if tv.digest(*g) != want[2 * i:2 * i + 2]]
    return len(wrong), wrong[:1]


class Settings(unittest.TestCase):
    def test_every_setting(self):
        cases, wants = tv.all_cases(), tv.read_wants()
        self.assertEqual(list(wants), list(tv.VARIANTS))
        self.assertGreater(len(cases), 480)
        for name, (_, _, refused) in tv.VARIANTS.items():
            with self.subTest(name):
                n, detail = result(name, wants[name], cases)
                if refused:
                    self.assertIsNone(n, "was converted")
                    self.assertIn(refused, detail)
                else:
                    self.assertEqual(n, 0, detail)


def print_table() -> None:
    """Settings x vocabularies: how many strings differ, or that it is refused."""
    cases, wants, kinds, rows = tv.all_cases(), tv.read_wants(), ("bpe", "uncased", "cased", "unigram"), {}
    for name in tv.VARIANTS:
        n, detail = result(name, wants[name], cases)
        kind, _, label = name.partition(": ")
        rows.setdefault(label, {})[kind] = "refused" if n is None else str(n)
        if n is None:
            rows[label]["why"] = detail.split("tokenizer.json: ")[-1]
    print(f"Strings of {len(cases)} whose ids or token types differ from Hugging Face's, by vocabulary (empty: not tried).\n")
    print("| setting | BPE | WordPiece, uncased | WordPiece, cased | Unigram | the converter says |\n|---|---|---|---|---|---|")
    for label, row in rows.items():
        print(f"| {label} | " + " | ".join(row.get(k, "") for k in kinds) + f" | {row.get('why', '').replace('|', chr(92) + '|')} |")


if __name__ == "__main__":
    PIPE = sys.argv.pop(1)
    if "--table" in sys.argv:
        print_table()
    else:
        unittest.main()
