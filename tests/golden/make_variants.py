"""Writes tokenizer/variants.txt and tokenizer/variants.want: what Hugging Face's tokenizers make of each setting in tokenizer_variants.py.

    pip install tokenizers==0.23.3
    python make_variants.py                              writes the goldens
    python make_variants.py --pipe PIPE -n 2000          compares that many random strings per setting instead (PIPE: tokenizer-pipe)
"""
import argparse
import os
import random
import sys

from tokenizers import Tokenizer

import tokenizer_variants as tv
from tokenizer_common import decode
from tokenizer_strings import Generator

SPECIALS = ["<s>", "</s>", "<mask>", "<pad>", "[MASK]", "[SEP]", "<new>", "<New>", "fox", "Fox", "The", "a b", "Quick", "ＦＯＸ", "LAZY"]


def reference(name: str) -> Tokenizer:
    return Tokenizer.from_str(tv.to_json(name))


def expected(tok: Tokenizer, case: tuple) -> tuple:
    a, b, flags = case
    enc = tok.encode(decode(a)[0], None if b is None else decode(b)[0], add_special_tokens=bool(flags & tv.ADD_SPECIAL))
    return enc.ids, enc.type_ids


def write_goldens() -> None:
    gen = Generator(random.Random(11), SPECIALS)
    cases = [(s.encode(), None, tv.ADD_SPECIAL) for s in tv.extra_strings()]
    cases += [(a.encode(), b.encode(), tv.ADD_SPECIAL) for a, b in (("the fox", "<new> fox"), ("", "fox"), (" a", " b"), ("Quick ", "The"))]
    cases += [gen.case(short=True)[:2] + (tv.ADD_SPECIAL,) for _ in range(140)]
    with open(os.path.join(tv.HERE, "variants.txt"), "w", newline="\n") as f:
        for a, b, flags in cases:
            f.write("\t".join([str(flags), tv.escape(a)] + ([] if b is None else [tv.escape(b)])) + "\n")
    wants = {}
    with open(os.path.join(tv.HERE, "variants.want"), "w", newline="\n") as f:
        for name, (_, _, refused) in tv.VARIANTS.items():
            tok = None if refused else reference(name)
            want = wants[name] = b"" if refused else b"".join(tv.digest(*with_specials(tok, c)) for c in tv.all_cases())
            default = bytes(len(want)) if name == tv.default_of(name) else wants[tv.default_of(name)]
            f.write(f"{name}\t{tv.pack_wants(want, default) if want else ''}\n")
    print(f"{len(tv.VARIANTS)} settings, {len(tv.all_cases())} strings")


def with_specials(tok: Tokenizer, case: tuple) -> tuple:
    """Types only count with special tokens: without them Hugging Face's post-processors do not agree on them."""
    ids, types = expected(tok, case)
    return ids, types if case[2] & tv.ADD_SPECIAL else [0] * len(types)


def compare_random(pipe: str, n: int, seed: int) -> int:
    sys.path.insert(0, os.path.join(tv.HERE, "..", ".."))
    from test_convert_tokenizer import convert_variant, run_pipe
    bad = 0
    for k, (name, (_, _, refused)) in enumerate(tv.VARIANTS.items()):
        if refused:
            continue
        gen = Generator(random.Random(seed + k), SPECIALS)
        cases, tok = [gen.case() for _ in range(n)], reference(name)
        got = run_pipe(pipe, convert_variant(name), cases)
        wrong = [(c, g, w) for c, g, w in zip(cases, got, (with_specials(tok, c) for c in cases)) if g != w]
        print(f"{name}: {len(wrong)} of {n} differ", flush=True)
        for case, have, want in wrong[:2]:
            print(f"  {case!r}\n  want {want[0]}\n  have {have[0]}")
        bad += len(wrong)
    return bad


def main() -> int:
    ap = argparse.ArgumentParser()
    ap.add_argument("--pipe")
    ap.add_argument("-n", type=int, default=500)
    ap.add_argument("--seed", type=int, default=1)
    args = ap.parse_args()
    if args.pipe:
        return compare_random(args.pipe, args.n, args.seed) != 0
    write_goldens()
    return 0


if __name__ == "__main__":
    sys.exit(main())
