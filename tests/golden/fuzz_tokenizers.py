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
import unicodedata

import gguf

import tokenizer_common as common
from tokenizer_common import CONTROL, NORMAL, Vocab

FRAGMENTS = """a|b|I|x|the|The|and|ing|ed|don't|we'll|I'VE|'s|'S|'re|'t|'lls|''|'|hello|world|Transformer|internationalization|ABC|aB
0|1|42|3.14159|1,000,000|2nd|½|²|Ⅷ|①|٣|१२|𝟘|.|,|!|?|...|…|-|--|—|_|__|#|##|@|$|€|%|&|*|(|)|[|]|{|}|<|>|/|\\|"|`|~|^|+|=|||:|;
é|e\u0301|ñ|n\u0303|ü|Ü|ß|ẞ|ﬁ|ﬃ|ĳ|ŉ|İ|ı|i\u0307|Ş|ğ|Σ|ς|ά|ᾳ|Ω|Ω|Å|Å|Ж|ё|Ё|й|и\u0306|ʼ|ª|º|ǆ|ǅ|Ǆ|\u0301|\u0301\u0327|a\u0323\u0307|q\u0307\u0323
中|文|中文字|日本語|ひらがな|カタカナ|ｶﾞ|パ|ハ\u309a|한국어|한|\u1112\u1161\u11ab|\u1100|𠀀|𪜀|豈|﨎|㍿|㌔|ｆｕｌｌ|ＷＩＤＥ|！|，|。|、|「|」|・|々|〇|〆
ไทย|ภาษา|น้ำ|ำ|ລາວ|ភាសា|မြန်မာ|हिन्दी|क्ष|ि|্|বাংলা|தமிழ்|తెలుగు|ಕನ್ನಡ|മലയാളം|සිංහල|བོད|ქართული|Ქ|Հայերեն|և|አማርኛ
עברית|שָׁלוֹם|العربية|مُحَمَّد|لا|ﷺ|ﻻ|۝|ـ|\u200f|\u200e|\u0600
😀|👍🏽|👨‍👩‍👧‍👦|🏳️‍🌈|🇩🇪|🇩🇪🇫|☃|☃️|❤️|©|®️|™|1️⃣|⌚|🧑🏿‍🚀|\U0001f3fb|\u200d|\ufe0f|\u20e3
 |  |   |\t|\n|\r|\r\n|\n\n| \n|\n |\x0b|\x0c|\x1c|\x1f|\x85|\xa0|\u1680|\u2003|\u2009|\u2028|\u2029|\u202f|\u205f|\u3000|\u180e
\x00|\x01|\x07|\x08|\x1b|\x7f|\x80|\x9f|\xad|\u034f|\u061c|\u200b|\u200c|\u2060|\u2066|\ufeff|\ufff9|\ufffc|\ufffd|\ufffe|\U0001d173|\U000e0001|\ue000|\U000f0000
▁|▁▁|▁the| ▁|Ġ|Ġthe|Ċ|##ing|\U0001d165|\U0001d15e|\u0b4d|\u1b44|\u302e|\u0f71\u0f72|\u0344|℃|㎏|ﬀ|ſ|K|ŀ|∕|⁄|𝐀|𝔘|ℌ|①②|ⅷ"""


def fragments():
    out = []
    for line in FRAGMENTS.split("\n"):
        out += [f for f in line.split("|") if f] + (["|"] if "=|||" in line else [])
    return out


class Generator:
    def __init__(self, rng, specials):
        self.rng, self.fragments = rng, fragments()
        self.specials = list(specials) + ["<mask", "mask>", "[MASK", "< mask>", "<MASK>", "＜mask＞"]
        # what the Unicode tables of both sides know
        self.known = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000 and unicodedata.category(chr(c)) != "Cn"
                      and c not in NEWER]

    def piece(self):
        r = self.rng.random()
        if r < 0.62:
            return self.rng.choice(self.fragments).encode()
        if r < 0.80:
            return b" "
        if r < 0.86:
            return self.rng.choice(self.specials).encode()
        if r < 0.92:
            return chr(self.rng.choice(self.known)).encode()
        if r < 0.95:
            return chr(self.rng.randrange(0x20, 0x300)).encode()
        if r < 0.98:
            return bytes(self.rng.randrange(256) for _ in range(self.rng.randrange(1, 4)))
        return self.rng.choice(self.fragments).encode()[:-1]

    def text(self):
        n = self.rng.choice((0, 1, 2, 3, 5, 8, 12, 20, 40))
        if self.rng.random() < 0.02:
            return self.piece() * self.rng.randrange(50, 300)
        return b"".join(self.piece() for _ in range(n))

    def case(self):
        pair = self.rng.random() < 0.15
        return self.text(), self.text() if pair else None, self.rng.choice((0, common.ADD_SPECIAL))


NEWER = set()


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
    return [[tuple(map(int, t.split(":"))) for t in line.split(" ") if t] for line in lines]


def compare(kind, vocab, cases, got, limit):
    tok, n_bad = vocab.reference(), 0
    for case, have in zip(cases, got):
        want = common.encode(tok, *case)
        if want != have:
            n_bad += 1
            if n_bad <= limit:
                print(f"{kind}: {case!r}\n  want {want}\n  have {have}")
                print("  " + " ".join(f"{vocab.tokens[w[0]][0]!r}{w[1:]}/{vocab.tokens[h[0]][0]!r}{h[1:]}"
                                      for w, h in zip(want, have) if w != h)[:400])
    print(f"{kind}: {len(cases)} strings, {n_bad} differences")
    return n_bad


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
        gen = Generator(random.Random(args.seed), [s for s, _, t in vocab.tokens if t == CONTROL])
        cases = [gen.case() for _ in range(args.n)]
        got = run_pipe(args.pipe, vocab, cases)
        assert len(got) == len(cases)
        bad += compare(kind, vocab, cases, got, args.show)
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
