"""tokenizer.json (Hugging Face `tokenizers`) -> Vocab. Every key is read; what the runtime does not have is refused by its name."""
from __future__ import annotations

import base64
import binascii
from pathlib import Path

from .errors import ConvertError, read_json, shown
from .node import Node
from .template import read_post_processor
from .vocab import ADDED_ONLY, CONTROL, LSTRIP, MAX_ID, NORMALIZED, RSTRIP, SINGLE_WORD, SPECIAL, USER, Vocab, byte_symbols

MAX_U32 = 2**32 - 1
FLAGS = (("lstrip", LSTRIP), ("rstrip", RSTRIP), ("single_word", SINGLE_WORD), ("normalized", NORMALIZED), ("special", SPECIAL))
SPACES = {"Regex": " {2,}"}
LLAMA_3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CLASS_SPLITS = {"WhitespaceSplit": "whitespace", "Whitespace": "words", "BertPreTokenizer": "bert"}
FORMS = {"NFC": "nfc", "NFD": "nfd", "NFKC": "nfkc", "NFKD": "nfkd", "Lowercase": "lowercase", "StripAccents": "strip_m"}


def read_tokenizer_json(path: Path) -> Vocab:
    data = read_json(path)
    try:
        return _read(Node(data, ""))
    except ConvertError as e:
        raise ConvertError(f"{path}: {e}") from None
    except (AttributeError, KeyError, TypeError, ValueError, IndexError, OverflowError) as e:
        raise ConvertError(f"{path}: unexpected content ({type(e).__name__}: {e})") from None


def _read(root: Node) -> Vocab:
    root.only("version", "1.0")
    for key in ("truncation", "padding", "decoder"):  # the caller's business, and what is done with ids
        root.take(key)
    vocab = _model(root.node("model"))
    _added_tokens(vocab, root.nodes("added_tokens") if root.left.get("added_tokens") is not None else [])
    root.take("added_tokens")
    for step in _flat(root, "normalizer", "normalizers"):
        _normalizer(vocab, step)
    for step in _flat(root, "pre_tokenizer", "pretokenizers"):
        _pre_tokenizer(vocab, step)
    _check_steps(vocab)
    read_post_processor(vocab, _flat(root, "post_processor", "processors"))
    root.done()
    return vocab


def _flat(parent: Node, key: str, members: str) -> list:
    """A step, a Sequence of steps or null -> list of steps."""
    if parent.left.get(key) is None:
        parent.take(key)
        return []
    return _flat_step(parent.node(key), members)


def _flat_step(step: Node, members: str) -> list:
    if step.left.get("type") != "Sequence":
        return [step]
    step.take("type")
    parts = [part for child in step.nodes(members) for part in _flat_step(child, members)]
    step.done()
    return parts


# ---- models

def _model(model: Node) -> Vocab:
    kind = model.take("type")
    if kind is None:
        kind = "BPE" if "merges" in model.left else "WordPiece" if "max_input_chars_per_word" in model.left else "Unigram"
    readers = {"BPE": _bpe, "Unigram": _unigram, "WordPiece": _wordpiece}
    if kind not in readers:
        raise ConvertError(f"tokenizer model {kind!r} is not supported")
    vocab = readers[kind](model)
    model.done()
    return vocab


def _ids(model: Node) -> dict:
    """id -> text"""
    vocab = model.take("vocab")
    if not isinstance(vocab, dict) or not vocab:
        raise ConvertError(f"{model.at('vocab')} is not an object of tokens: unexpected content")
    pieces = {}
    for text, i in vocab.items():
        if isinstance(i, bool) or not isinstance(i, int) or not 0 <= i <= MAX_ID:
            raise ConvertError(f"{model.at('vocab')}: the id of {shown(text)} is {shown(i)}")
        if i in pieces:
            raise ConvertError(f"{model.at('vocab')}: {shown(text)} and {shown(pieces[i])} have the same id {i}")
        pieces[i] = text
    return pieces


def _unknown(model: Node, pieces: dict) -> int:
    """The id of unk_token, -1 where it is null."""
    text = model.take("unk_token")
    if text is None:
        return -1
    for i, piece in pieces.items():
        if piece == text:
            return i
    raise ConvertError(f"{model.at('unk_token')} = {shown(text)} is not in the vocabulary")


def _bpe(model: Node) -> Vocab:
    pieces = _ids(model)
    model.only("dropout", None, 0.0)
    for key in ("continuing_subword_prefix", "end_of_word_suffix"):
        model.only(key, None, "")
    whole_words = model.bool("ignore_merges")
    unknown = _unknown(model, pieces)
    if set(byte_symbols()) <= set(pieces.values()):  # nothing is unknown then
        unknown = -1
        model.bool("fuse_unk"), model.bool("byte_fallback")
    model.only("fuse_unk", False)
    model.only("byte_fallback", False)
    merges = [m if isinstance(m, str) else f"{m[0]} {m[1]}" for m in model.list("merges")]
    if any(m.count(" ") != 1 for m in merges):
        raise ConvertError("a merge is not a pair")
    return Vocab("gpt2", "roberta-bpe", pieces, merges=merges, unknown=unknown, whole_words=whole_words)


def _unigram(model: Node) -> Vocab:
    model.only("byte_fallback", False)
    rows = model.list("vocab")
    pieces = {i: str(p[0]) for i, p in enumerate(rows)}
    return Vocab("t5", "default", pieces, scores={i: float(p[1]) for i, p in enumerate(rows)}, unknown=model.int("unk_id", 0, len(rows) - 1))


def _wordpiece(model: Node) -> Vocab:
    pieces = _ids(model)
    model.only("continuing_subword_prefix", "##")
    unknown = _unknown(model, pieces)
    if unknown < 0:
        raise ConvertError(f"{model.at('unk_token')} is missing")
    return Vocab("bert", "default", pieces, unknown=unknown, max_word_chars=model.int("max_input_chars_per_word", 0, MAX_U32, 100))


# ---- added tokens

def _added_tokens(vocab: Vocab, added: list) -> None:
    """Hugging Face numbers them anew: by the model's vocabulary, else behind the last. An id that says otherwise is refused."""
    known = {text: i for i, text in vocab.pieces.items()}
    size = len(known)
    highest = -1
    for token in added:
        text = token.string("content")
        flags = sum(flag for key, flag in FLAGS if token.bool(key))
        given = token.take("id")
        token.done()
        if not text:
            raise ConvertError(f"{token.at('content')} is empty")
        i = known.get(text, max(highest + 1, size) if highest >= size else size)
        if given != i or isinstance(given, bool):
            raise ConvertError(f"{token.at('id')} = {shown(given)}, but Hugging Face's tokenizers give {shown(text)} the id {i}")
        if i in vocab.added:
            raise ConvertError(f"{token.path}: {shown(text)} is added twice")
        highest = max(highest, i)
        in_model = text in known
        vocab.pieces[i] = text
        vocab.added[i] = flags | (0 if in_model else ADDED_ONLY)
        # GGUF spells a control token of WordPiece so that it cannot be a part of a word
        vocab.types[i] = USER if not flags & SPECIAL or (vocab.model == "bert" and in_model and flags & SINGLE_WORD) else CONTROL


# ---- normalizers and pre-tokenizers

def _normalizer(vocab: Vocab, step: Node) -> None:
    kind = step.string("type")
    if kind in FORMS:
        vocab.normalize.append(FORMS[kind])
    elif kind == "BertNormalizer":
        lower = step.bool("lowercase", True)
        accents = step.take("strip_accents")
        if accents is not None and not isinstance(accents, bool):
            step.refuse("strip_accents", accents)
        strip = lower if accents is None else accents
        vocab.normalize += ["clean"] * step.bool("clean_text", True) + ["cjk"] * step.bool("handle_chinese_chars", True)
        vocab.normalize += ["nfd", "strip_mn"] * strip + ["lowercase"] * lower
    elif kind == "Strip":
        vocab.normalize += ["strip_left"] * step.bool("strip_left", True) + ["strip_right"] * step.bool("strip_right", True)
    elif kind == "Replace":
        pattern, content = step.take("pattern"), step.take("content")
        if pattern != SPACES or content not in (" ", "\u2581"):
            raise ConvertError(f"normalizer Replace of {shown(pattern)} by {shown(content)} at {step.path} is not supported")
        vocab.normalize.append("spaces" if content == " " else "spaces_to_meta")
    elif kind == "Precompiled":
        _precompiled(vocab, step)
    else:
        raise ConvertError(f"normalizer {kind!r} at {step.path} is not supported")
    step.done()


def _precompiled(vocab: Vocab, step: Node) -> None:
    if "charsmap" in vocab.normalize:
        raise ConvertError(f"{step.path}: a second Precompiled is not supported")
    try:
        vocab.charsmap = base64.b64decode(step.take("precompiled_charsmap") or "", validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise ConvertError("bad precompiled_charsmap") from None
    if vocab.charsmap:
        vocab.normalize.append("charsmap")


def _pre_tokenizer(vocab: Vocab, step: Node) -> None:
    kind = step.string("type")
    if kind in CLASS_SPLITS:
        vocab.split.append(CLASS_SPLITS[kind])
    elif kind == "Digits":
        vocab.split.append("digits" if step.bool("individual_digits") else "digit_runs")
    elif kind == "Punctuation":
        step.only("behavior", "Isolated")
        vocab.split.append("punctuation")
    elif kind == "ByteLevel":
        step.bool("trim_offsets", True)  # the post-processor's is what counts
        vocab.split.append(("byte_words" if step.bool("use_regex", True) else "bytes") + "_prefix" * step.bool("add_prefix_space", True))
    elif kind == "Split":
        pattern, behavior = step.take("pattern"), step.take("behavior")
        if pattern != {"Regex": LLAMA_3} or behavior != "Isolated" or step.bool("invert"):
            raise ConvertError(f"pre-tokenizer Split by {shown(pattern)} at {step.path} is not supported")
        vocab.split.append("llama3")
        vocab.pre = "llama-bpe"
    elif kind == "Metaspace":
        _metaspace(vocab, step)
    else:
        raise ConvertError(f"pre-tokenizer {kind!r} at {step.path} is not supported")
    step.done()


def _metaspace(vocab: Vocab, step: Node) -> None:
    step.only("replacement", "\u2581")
    step.take("str_rep")  # of old files: the same again
    old = step.take("add_prefix_space")
    scheme = step.take("prepend_scheme", "always" if old in (None, True) else "never")
    if scheme not in ("always", "first", "never") or (old is not None and old is not (scheme != "never")):
        step.refuse("prepend_scheme", scheme)
    vocab.split.append(f"meta_{scheme}" + ("" if step.bool("split", True) else "_whole"))


def _check_steps(vocab: Vocab) -> None:
    """What the runtime cannot do whatever the order of its steps."""
    is_bytes = [s.startswith("byte") for s in vocab.split]
    if vocab.model == "gpt2" and (not is_bytes or not is_bytes[-1] or sum(is_bytes) != 1):
        raise ConvertError(f"pre_tokenizer: BPE without byte-level pre-tokenizer at the end is not supported ({', '.join(vocab.split) or 'none'})")
    if vocab.model != "gpt2" and any(is_bytes):
        raise ConvertError("pre_tokenizer: ByteLevel is supported for BPE only")
    if sum(s.startswith("meta") or s.endswith("_prefix") for s in vocab.split) > 1:
        raise ConvertError("pre_tokenizer: more than one step that adds a prefix is not supported")
    if vocab.model != "t5" and ("charsmap" in vocab.normalize or any(s.startswith("meta") for s in vocab.split)):
        raise ConvertError("normalizer or pre_tokenizer: Precompiled and Metaspace are supported for Unigram only")
    if len(vocab.normalize) > 16 or len(vocab.split) > 16:
        raise ConvertError("more than 16 steps of normalizing or splitting are not supported")
