"""tokenizer.json (Hugging Face `tokenizers`) -> Vocab. Steps the runtime does not have are refused, not ignored."""
from __future__ import annotations

import base64
import binascii
from pathlib import Path

from .errors import ConvertError, read_json
from .vocab import CONTROL, LSTRIP, NORMALIZED, RSTRIP, SINGLE_WORD, SPECIAL, USER, Vocab


def read_tokenizer_json(path: Path) -> Vocab:
    data = read_json(path)
    model = data.get("model")
    if not isinstance(model, dict):
        raise ConvertError(f"{path}: no model")
    kind = str(model.get("type") or "") or ("BPE" if "merges" in model else "WordPiece" if "max_input_chars_per_word" in model else "Unigram")
    readers = {"BPE": _bpe, "Unigram": _unigram, "WordPiece": _wordpiece}
    if kind not in readers:
        raise ConvertError(f"{path}: tokenizer model {kind!r} is not supported")
    try:
        vocab = readers[kind](model, _flat(data.get("normalizer"), "normalizers"), _flat(data.get("pre_tokenizer"), "pretokenizers"))
        _added_tokens(vocab, data.get("added_tokens") or [])
        _post_processor(vocab, _flat(data.get("post_processor"), "processors"))
    except ConvertError as e:
        raise ConvertError(f"{path}: {e}") from None
    except (AttributeError, KeyError, TypeError, ValueError, IndexError, OverflowError) as e:
        raise ConvertError(f"{path}: unexpected content ({type(e).__name__}: {e})") from None
    return vocab


def _flat(step, members: str) -> list:
    """A step, a Sequence of steps or null -> list of steps."""
    if step is None:
        return []
    return [s for part in step[members] for s in _flat(part, members)] if step.get("type") == "Sequence" else [step]


def _refuse(what: str, steps: list, allowed: tuple) -> None:
    for step in steps:
        if step.get("type") not in allowed:
            raise ConvertError(f"{what} {step.get('type')!r} is not supported")


def _bpe(model: dict, normalizers: list, pre: list) -> Vocab:
    _refuse("normalizer", normalizers, ())
    _refuse("pre-tokenizer", pre, ("ByteLevel",))
    if not pre:
        raise ConvertError("BPE without byte-level pre-tokenizer is not supported")
    if model.get("continuing_subword_prefix") or model.get("end_of_word_suffix"):
        raise ConvertError("BPE with sub-word prefixes or suffixes is not supported")
    merges = [m if isinstance(m, str) else f"{m[0]} {m[1]}" for m in model["merges"]]
    if any(m.count(" ") != 1 for m in merges):
        raise ConvertError("a merge is not a pair")
    return Vocab("gpt2", "roberta-bpe", {int(i): str(t) for t, i in model["vocab"].items()}, merges=merges, double_sep=True,
                 options={"add_prefix_space": bool(pre[0].get("add_prefix_space"))})


def _unigram(model: dict, normalizers: list, pre: list) -> Vocab:
    _refuse("normalizer", normalizers, ("Precompiled", "Replace", "Strip"))
    _refuse("pre-tokenizer", pre, ("WhitespaceSplit", "Metaspace"))
    charsmap, squeeze = b"", False
    for step in normalizers:
        if step["type"] == "Precompiled":
            try:
                charsmap = base64.b64decode(step.get("precompiled_charsmap") or "", validate=True)
            except (binascii.Error, ValueError):
                raise ConvertError("bad precompiled_charsmap") from None
        elif step["type"] == "Strip" or step["pattern"] == {"Regex": " {2,}"}:
            squeeze = True
        else:
            raise ConvertError(f"normalizer Replace of {step['pattern']} is not supported")
    metaspace = next((s for s in pre if s["type"] == "Metaspace"), {})
    split = any(s["type"] == "WhitespaceSplit" for s in pre)
    if metaspace.get("replacement", "\u2581") != "\u2581":
        raise ConvertError("Metaspace with a replacement other than U+2581 is not supported")
    prefix = metaspace.get("add_prefix_space", metaspace.get("prepend_scheme", "always") != "never")
    pieces = model["vocab"]
    return Vocab("t5", "default", {i: str(p[0]) for i, p in enumerate(pieces)}, scores={i: float(p[1]) for i, p in enumerate(pieces)},
                 charsmap=charsmap, double_sep=True,
                 options={"add_space_prefix": bool(prefix), "remove_extra_whitespaces": squeeze or split, "whitespace_split": split})


def _wordpiece(model: dict, normalizers: list, pre: list) -> Vocab:
    _refuse("normalizer", normalizers, ("BertNormalizer", "NFD", "Lowercase", "StripAccents"))
    _refuse("pre-tokenizer", pre, ("BertPreTokenizer",))
    if model.get("continuing_subword_prefix", "##") != "##":
        raise ConvertError("WordPiece with a prefix other than ## is not supported")
    options = {"lowercase": False, "strip_accents": False, "clean_text": False, "handle_chinese_chars": False,
               "max_word_chars": int(model.get("max_input_chars_per_word", 100))}
    for step in normalizers:
        if step["type"] == "BertNormalizer":
            lower = bool(step.get("lowercase", True))
            accents = step.get("strip_accents")
            options.update(lowercase=lower, strip_accents=lower if accents is None else bool(accents),
                           clean_text=bool(step.get("clean_text", True)), handle_chinese_chars=bool(step.get("handle_chinese_chars", True)))
        elif step["type"] in ("Lowercase", "StripAccents"):
            options["lowercase" if step["type"] == "Lowercase" else "strip_accents"] = True
    return Vocab("bert", "default", {int(i): str(t) for t, i in model["vocab"].items()}, options=options, pair_type=1)


def _added_tokens(vocab: Vocab, added: list) -> None:
    for token in added:
        i = int(token["id"])
        vocab.pieces[i] = str(token["content"])
        vocab.types[i] = CONTROL if token.get("special") else USER
        vocab.added[i] = sum(flag for key, flag in (("lstrip", LSTRIP), ("rstrip", RSTRIP), ("single_word", SINGLE_WORD),
                                                     ("normalized", NORMALIZED), ("special", SPECIAL)) if token.get(key))


def _post_processor(vocab: Vocab, steps: list) -> None:
    for step in steps:
        if step["type"] == "RobertaProcessing":
            vocab.double_sep, vocab.pair_type = True, 0
        elif step["type"] == "BertProcessing":
            vocab.double_sep, vocab.pair_type = False, 1
        elif step["type"] == "TemplateProcessing":
            single, pair = step["single"], step["pair"]
            if len(single) != 3 or "SpecialToken" not in single[0] or "SpecialToken" not in single[2] or "Sequence" not in single[1]:
                raise ConvertError("the template of a single text is not: special, text, special")
            texts = [i for i, part in enumerate(pair) if "Sequence" in part]
            if len(texts) != 2 or texts[0] != 1 or texts[1] != len(pair) - 2 or not 1 <= texts[1] - texts[0] - 1 <= 2:
                raise ConvertError("the template of a pair is not supported")
            vocab.double_sep = texts[1] - texts[0] == 3
            vocab.pair_type = int(pair[texts[1]]["Sequence"].get("type_id", 0))
        elif step["type"] != "ByteLevel":
            raise ConvertError(f"post-processor {step['type']!r} is not supported")
