"""Random hard strings through the C tokenizers and through Hugging Face's, with whole vocabularies.

    pip install tokenizers==0.22.1 gguf==0.19.0
    python fuzz_tokenizers.py PIPE MODELS [-n 20000] [--seed 1] [--kind bpe,uncased,cased,unigram]

PIPE is the program tokenizer-pipe, MODELS the folder vendor/llama.cpp/models of the sdist llama-cpp-python==0.3.36, which holds
ggml-vocab-{gpt-2,bert-bge,nomic-bert-moe}.gguf. Prints every difference; exits 1 if there is one.
"""
import argparse
import os
import random
import subprocess
import sys
import tempfile

import gguf

import tokenizer_common as common
from tokenizer_common import CONTROL, Vocab
from tokenizer_strings import Generator

def load(models, name):
    fields = gguf.GGUFReader(os.path.join(models, f"ggml-vocab-{name}.gguf")).fields
    get = lambda key: fields[f"tokenizer.ggml.{key}"].contents() if f"tokenizer.ggml.{key}" in fields else None
    tokens, types = get("tokens"), get("token_type")
    scores = get("scores") or [0.0] * len(tokens)
    return list(zip(tokens, scores, types)), get


def load_bpe(models):
    tokens, get = load(models, "gpt-2")
    n = len(tokens)
    tokens += [(s, 0.0, CONTROL) for s in ("<s>", "<pad>", "</s>", "<unk>", "<mask>")]  # RoBERTa's
    return Vocab("bpe", tokens, merges=get("merges"), flags=("add_bos", "add_eos"), bos=n, pad=n + 1, eos=n + 2, sep=n + 2, mask=n + 4)


def load_bert(models, cased):
    tokens, _ = load(models, "bert-bge")
    flags = ("add_bos", "add_eos", "split_cjk") + (() if cased else ("lowercase", "strip_accents"))
    return Vocab("wordpiece", tokens, flags=flags, cls=101, sep=102, unk=100, mask=103, pad=0)


def load_unigram(models):
    tokens, get = load(models, "nomic-bert-moe")
    return Vocab("unigram", tokens, charsmap=bytes(get("precompiled_charsmap")),
                 flags=("add_bos", "add_eos", "add_space_prefix", "remove_extra_whitespaces"),
                 bos=0, pad=1, eos=2, sep=2, unk=3, mask=250001)


LOADERS = {"bpe": load_bpe, "uncased": lambda m: load_bert(m, False), "cased": lambda m: load_bert(m, True), "unigram": load_unigram}


def run_pipe(pipe, vocab, cases):
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "vocab.txt")
        vocab.write(path)
        p = subprocess.run([pipe, path], input=b"".join(common.pack(*c) for c in cases), stdout=subprocess.PIPE)
    if p.returncode:
        raise SystemExit(f"{pipe} failed: {p.returncode}")
    lines = p.stdout.decode().split("\n")[:-1]
    return [[tuple(map(int, t.split(":")[:3])) for t in line.split(" ") if t] for line in lines]


def compare(kind, vocab, cases, got, limit):
    tok, n_bad, n_offsets = vocab.reference(), 0, 0
    for case, have in zip(cases, got):
        want = common.encode(tok, *case)
        if all(common.offsets_comparable(tok, vocab, common.decode(t)[0]) for t in case[:2] if t is not None):
            n_offsets += 1
        else:
            want, have = [w[:1] for w in want], [h[:1] for h in have]
        if want != have:
            n_bad += 1
            if n_bad <= limit:
                print(f"{kind}: {case!r}\n  want {want}\n  have {have}")
                print("  " + " ".join(f"{vocab.tokens[w[0]][0]!r}{w[1:]}/{vocab.tokens[h[0]][0]!r}{h[1:]}"
                                      for w, h in zip(want, have) if w != h)[:400])
    print(f"{kind}: {len(cases)} strings, {n_offsets} of them with offsets, {n_bad} differences")
    return n_bad


def compare_stored(models, kind, vocab, pipe):
    """llama.cpp's own goldens: .inp and .out beside a vocabulary, made with Hugging Face's tokenizers"""
    name = {"bpe": "gpt-2", "uncased": "bert-bge"}.get(kind)
    if name is None:
        return 0
    with open(os.path.join(models, f"ggml-vocab-{name}.gguf.inp"), "rb") as f:
        texts = f.read().split(b"\n__ggml_vocab_test__\n")
    with open(os.path.join(models, f"ggml-vocab-{name}.gguf.out")) as f:
        wants = [list(map(int, line.split())) for line in f]
    got = run_pipe(pipe, vocab, [(t, None, 0) for t in texts])
    bad = [t for t, want, have in zip(texts, wants, got) if want != [h[0] for h in have]]
    assert len(texts) >= len(wants) > 40
    print(f"{kind}: {len(wants)} stored goldens, {len(bad)} differences", *bad)
    return len(bad)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("pipe")
    ap.add_argument("models")
    ap.add_argument("-n", type=int, default=20000)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--show", type=int, default=5)
    ap.add_argument("--kind", default="bpe,uncased,cased,unigram")
    args = ap.parse_args()
    bad = 0
    for kind in args.kind.split(","):
        vocab = LOADERS[kind](args.models)
        bad += compare_stored(args.models, kind, vocab, args.pipe)
        gen = Generator(random.Random(args.seed + len(kind)), [s for s, _, t in vocab.tokens if t == CONTROL])
        cases = [gen.case() for _ in range(args.n)]
        got = run_pipe(args.pipe, vocab, cases)
        assert len(got) == len(cases)
        bad += compare(kind, vocab, cases, got, args.show)
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
