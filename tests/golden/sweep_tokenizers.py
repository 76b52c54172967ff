"""Every code point through the C tokenizers and Hugging Face's, with vocabularies that show how each is classified.

    python sweep_tokenizers.py PIPE MODELS [--kind bpe,uncased,lower,cased,unigram]

Arguments as in fuzz_tokenizers.py. Prints the code points that differ, and fails if one does that is not listed as NEWER in
tokenizer_strings.py although this Python's Unicode tables know it.
"""
import argparse
import sys
import unicodedata

import fuzz_tokenizers as fuzz
from tokenizer_common import CONTROL, META, NORMAL, Vocab
from tokenizer_strings import NEWER, ranges
from tokenizers import pre_tokenizers

CODE_POINTS = [chr(c) for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000]
BATCH = 20000


def bpe(_):
    """a, 1 and ! join the first byte of what follows, so a token shows whether that is in the same word."""
    def spell(data):
        return "".join(p for p, _ in pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(data))

    lead = sorted({spell(chr(c))[0] for c in (0x80, 0xFF, *range(0x100, 0x110000, 0x40)) if not 0xD800 <= c < 0xE000})
    tokens = sorted(pre_tokenizers.ByteLevel.alphabet()) + [x + b for x in "a1!" for b in lead]
    merges = [f"{x} {b}" for x in "a1!" for b in lead]
    n = len(tokens)
    return Vocab("bpe", [(t, 0.0, NORMAL) for t in tokens] + [("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)], merges=merges,
                 bos=n, eos=n + 1), "a{0}1{0}!{0} {0}"


def wordpiece(*flags):
    """every code point is a token"""
    tokens = [(s, 0.0, CONTROL) for s in ("[UNK]", "[CLS]", "[SEP]")]
    for c in CODE_POINTS:
        tokens += [(META + c, 0.0, NORMAL)] + ([(c, 0.0, NORMAL)] if c != META else [])
    return Vocab("wordpiece", tokens, flags=flags, unk=0, cls=1, sep=2), "a{0}b {0}"


def unigram(models):
    """a mark in one cluster with a fraction is dropped with it"""
    return fuzz.load_unigram(models), "\u00bd{0} {0}\u00bdx{0}"


KINDS = {"bpe": bpe, "unigram": unigram, "cased": lambda _: wordpiece("split_cjk"),
         "lower": lambda _: wordpiece("split_cjk", "lowercase"),
         "uncased": lambda _: wordpiece("split_cjk", "lowercase", "strip_accents")}


def sweep(kind, args):
    vocab, pattern = KINDS[kind](args.models)
    texts = [pattern.format(c) for c in CODE_POINTS]
    got = fuzz.run_pipe(args.pipe, vocab, [(t.encode(), None, 0) for t in texts])
    tok, differ = vocab.reference(), []
    for i in range(0, len(texts), BATCH):
        encoded = tok.encode_batch(texts[i:i + BATCH], add_special_tokens=False)
        for c, enc, have in zip(CODE_POINTS[i:i + BATCH], encoded, got[i:i + BATCH]):
            if enc.ids != [h[0] for h in have]:
                differ.append(c)
    known = ranges(NEWER)
    bad = [c for c in differ if unicodedata.category(c) != "Cn" and ord(c) not in known]
    print(f"{kind}: {len(differ)} of {len(texts)} differ, {len(bad)} unexpectedly", *(f"{ord(c):X}" for c in bad), flush=True)
    return len(bad)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("pipe")
    ap.add_argument("models")
    ap.add_argument("--kind", default="bpe,uncased,lower,cased,unigram")
    args = ap.parse_args()
    return sum(sweep(kind, args) for kind in args.kind.split(",")) != 0


if __name__ == "__main__":
    sys.exit(main())
