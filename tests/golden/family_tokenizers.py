"""Made-up tokenizers with the splits of ModernBERT, EuroBERT and others, in Hugging Face's format."""
from __future__ import annotations

from pathlib import Path

from random_vocab import _added, _dump, _template, bpe, write_tokenizer

BRACKETS = {"<s>": "[CLS]", "<pad>": "[PAD]", "</s>": "[SEP]", "<unk>": "[UNK]", "<mask>": "[MASK]"}
# Llama 3's and EuroBERT's
LLAMA_3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def write_family_tokenizer(folder: Path, kind: str, n_vocab: int) -> None:
    """kind: wordpiece; brackets: ModernBERT's byte-level BPE; digits: EuroBERT's"""
    if kind in ("wordpiece", "unigram"):
        write_tokenizer(folder, "bert" if kind == "wordpiece" else "xlm-roberta", n_vocab)
        return
    vocab, merges = bpe(n_vocab)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": kind == "brackets"}
    vocab = {BRACKETS.get(t, t) if kind == "brackets" else t: i for t, i in vocab.items()}
    first, last = ("[CLS]", "[SEP]") if kind == "brackets" else ("<s>", "</s>")
    special = [BRACKETS[t] if kind == "brackets" else t for t in BRACKETS]
    split = {"type": "Split", "pattern": {"Regex": LLAMA_3}, "behavior": "Isolated", "invert": False}
    added = [{**token, "lstrip": "mask" in token["content"].lower()} for token in _added(special, vocab)]
    _dump(folder / "tokenizer.json", {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "NFC"} if kind == "brackets" else None,
        "pre_tokenizer": byte_level if kind == "brackets" else {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": _template(first, last, [last], vocab, 0), "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
                  "byte_fallback": False, "ignore_merges": kind == "digits", "vocab": vocab, "merges": merges}})
    names = dict(zip(("cls", "pad", "sep", "unk", "mask"), special))
    if kind == "digits":
        names = {"pad": "<pad>", "mask": "<mask>"}
    _dump(folder / "tokenizer_config.json", {**{f"{k}_token": v for k, v in names.items()}, "tokenizer_class": "PreTrainedTokenizerFast",
                                             "bos_token": first, "eos_token": last})
