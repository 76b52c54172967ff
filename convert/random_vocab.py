"""Made-up tokenizers of a given size in Hugging Face's format: byte-level BPE, unigram, WordPiece.

Their pieces are strings of letters, the commoner letters first, so that English text splits into a few tokens per word.
"""
from __future__ import annotations

import itertools
import json
from pathlib import Path

LETTERS = "etaoinshrdlucmfwypvbgkjqxz"
ANGLE = ["<s>", "<pad>", "</s>", "<unk>"]
BRACKET = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def byte_symbols() -> list:
    """GPT-2's printable stand-in for each of the 256 bytes."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    spare = itertools.count(0x100)
    return [chr(b) if b in printable else chr(next(spare)) for b in range(256)]


def pairs(starts: list):
    """Endlessly (left, right): every known string of letters extended by a letter, shorter and commoner strings first."""
    level = starts
    while True:
        longer = []
        for left in level:
            for right in LETTERS:
                yield left, right
                longer.append(left + right)
        level = longer


def bpe(n_vocab: int) -> tuple:
    """(vocab, merges) with RoBERTa's special ids; <mask> comes last."""
    if n_vocab < 261:
        raise ValueError("a byte-level vocabulary has at least 261 tokens")
    merges = [f"{a} {b}" for a, b in itertools.islice(pairs(["\u0120", *LETTERS]), n_vocab - 261)]
    return bpe_of(merges, n_vocab), merges


def bpe_of(merges: list, n_vocab: int) -> dict:
    """The vocabulary a list of merges makes, filled up to n_vocab as RoBERTa's is."""
    tokens = ANGLE + byte_symbols() + [m.replace(" ", "") for m in merges]
    if len(tokens) + 1 > n_vocab:
        raise ValueError(f"{len(merges)} merges need a vocabulary of {len(tokens) + 1} tokens")
    tokens += [f"madeupword{i:04}" for i in range(n_vocab - 1 - len(tokens))] + ["<mask>"]
    return {t: i for i, t in enumerate(tokens)}


def unigram(n_vocab: int) -> list:
    """[(piece, score)] with XLM-RoBERTa's special ids."""
    singles = ["\u2581", *LETTERS, *LETTERS.upper(), *"0123456789.,;:!?'\"()-"]
    if n_vocab < len(singles) + 5:
        raise ValueError(f"a unigram vocabulary has at least {len(singles) + 5} tokens")
    longer = [a + b for a, b in itertools.islice(pairs(["\u2581", *LETTERS]), n_vocab - 5 - len(singles))]
    scored = [(p, -6.0 - i / 64) for i, p in enumerate(longer)] + [(p, -11.0 - i / 64) for i, p in enumerate(singles)]
    return [(p, 0.0) for p in ANGLE] + scored + [("<mask>", 0.0)]


def wordpiece(n_vocab: int) -> list:
    singles = [*LETTERS, *"0123456789.,;:!?'\"()-"]
    singles += ["##" + c for c in LETTERS + "0123456789"]
    if n_vocab < len(singles) + 5:
        raise ValueError(f"a WordPiece vocabulary has at least {len(singles) + 5} tokens")
    both = (p for a, b in pairs([*LETTERS]) for p in (a + b, "##" + a + b))
    return BRACKET + singles + list(itertools.islice(both, n_vocab - 5 - len(singles)))


def _dump(path: Path, value) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _added(texts: list, ids: dict) -> list:
    return [{"id": ids[t], "content": t, "single_word": False, "lstrip": t == "<mask>", "rstrip": False, "normalized": False, "special": True}
            for t in sorted(texts, key=ids.get)]


def _template(first: str, last: str, between: list, ids: dict, type_b: int) -> dict:
    special = lambda t, kind=0: {"SpecialToken": {"id": t, "type_id": kind}}
    text = lambda name, kind=0: {"Sequence": {"id": name, "type_id": kind}}
    return {"type": "TemplateProcessing", "single": [special(first), text("A"), special(last)],
            "pair": [special(first), text("A"), *map(special, between), text("B", type_b), special(last, type_b)],
            "special_tokens": {t: {"id": t, "ids": [ids[t]], "tokens": [t]} for t in (first, last)}}


def _given_bpe(merges_txt: Path, vocab_json: Path | None, n_vocab: int) -> tuple:
    merges = [m for m in merges_txt.read_text(encoding="utf-8").split("\n") if m and not m.startswith("#version")]
    if vocab_json is None:
        return bpe_of(merges, n_vocab), merges
    vocab = json.loads(vocab_json.read_text(encoding="utf-8"))
    missing = [t for t in ANGLE + ["<mask>"] if t not in vocab]
    if missing:
        raise ValueError(f"{vocab_json} has no {', '.join(missing)}: give --merges alone")
    if max(vocab.values()) >= n_vocab:
        raise ValueError(f"{vocab_json} needs --vocab {max(vocab.values()) + 1}")
    return vocab, merges


def write_tokenizer(folder: Path, family: str, n_vocab: int, merges_txt: Path | None = None, vocab_json: Path | None = None) -> None:
    """Writes tokenizer.json and the older files of the family. BPE can be given: its merges, and a vocabulary for them."""
    base = {"version": "1.0", "truncation": None, "padding": None}
    if family == "bert":
        tokens = wordpiece(n_vocab)
        ids = {t: i for i, t in enumerate(tokens)}
        (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
        base.update(
            added_tokens=_added(BRACKET, ids), pre_tokenizer={"type": "BertPreTokenizer"},
            normalizer={"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
            post_processor=_template("[CLS]", "[SEP]", ["[SEP]"], ids, 1), decoder={"type": "WordPiece", "prefix": "##", "cleanup": True},
            model={"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": ids})
        names = dict(zip(("pad", "unk", "cls", "sep", "mask"), BRACKET))
        _dump(folder / "tokenizer_config.json", {**{f"{k}_token": v for k, v in names.items()}, "do_lower_case": True, "tokenizer_class": "BertTokenizer"})
    elif family in ("xlm-roberta", "camembert"):
        pieces = unigram(n_vocab)
        ids = {p: i for i, (p, _) in enumerate(pieces)}
        space = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
        base.update(
            added_tokens=_added(ANGLE + ["<mask>"], ids),
            normalizer={"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
            pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, space]}, decoder=space,
            post_processor=_template("<s>", "</s>", ["</s>", "</s>"], ids, 0),
            model={"type": "Unigram", "unk_id": 3, "vocab": [list(p) for p in pieces], "byte_fallback": False})
        _angle_config(folder, "XLMRobertaTokenizer")
    else:
        vocab, merges = _given_bpe(merges_txt, vocab_json, n_vocab) if merges_txt else bpe(n_vocab)
        _dump(folder / "vocab.json", vocab)
        (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n", encoding="utf-8")
        base.update(
            added_tokens=_added(ANGLE + ["<mask>"], vocab), normalizer=None, decoder={"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            pre_tokenizer={"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            post_processor={"type": "RobertaProcessing", "sep": ["</s>", vocab["</s>"]], "cls": ["<s>", vocab["<s>"]],
                            "trim_offsets": True, "add_prefix_space": False},
            model={"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "", "end_of_word_suffix": "",
                   "fuse_unk": False, "vocab": vocab, "merges": merges})
        _angle_config(folder, "RobertaTokenizer")
    _dump(folder / "tokenizer.json", base)


def _angle_config(folder: Path, tokenizer_class: str) -> None:
    names = {"bos": "<s>", "eos": "</s>", "unk": "<unk>", "sep": "</s>", "pad": "<pad>", "cls": "<s>", "mask": "<mask>"}
    _dump(folder / "tokenizer_config.json", {**{f"{k}_token": v for k, v in names.items()}, "tokenizer_class": tokenizer_class})
