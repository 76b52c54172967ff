"""Tokenizers from before tokenizer.json: vocab.json + merges.txt, sentencepiece.bpe.model, vocab.txt."""
from __future__ import annotations

from pathlib import Path

from .errors import ConvertError, read_json, read_json_if
from .sentencepiece import read_sentencepiece
from .vocab import ADDED_ONLY, ANGLE, BRACKET, CONTROL, LSTRIP, SPECIAL, TEXT_A, TEXT_B, USER, Vocab


def read_vocab_files(folder: Path, family: str) -> Vocab:
    if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        vocab = _bpe(folder)
    elif (folder / "sentencepiece.bpe.model").is_file():
        vocab = _unigram(folder, family)
    elif (folder / "vocab.txt").is_file():
        vocab = _wordpiece(folder)
    else:
        raise ConvertError(f"{folder}: no tokenizer (tokenizer.json, vocab.json + merges.txt, sentencepiece.bpe.model or vocab.txt)")
    for text, i in read_json_if(folder / "added_tokens.json").items():
        if isinstance(i, bool) or not isinstance(i, int):
            raise ConvertError(f"{folder / 'added_tokens.json'}: the id of {text!r} is not a number")
        if i not in vocab.pieces:
            vocab.pieces[i], vocab.types[i], vocab.added[i] = text, USER, ADDED_ONLY
    special = set((BRACKET if vocab.model == "bert" else ANGLE).values())
    for i, piece in vocab.pieces.items():
        if piece in special:  # <mask> takes the white space before it along, [MASK] does not
            vocab.types[i] = CONTROL
            vocab.added[i] = SPECIAL | (LSTRIP if piece == "<mask>" else 0) | (vocab.added.get(i, 0) & ADDED_ONLY)
    return vocab


def set_template(vocab: Vocab) -> None:
    """[CLS] A [SEP] B [SEP], the second half of type 1; or <s> A </s> </s> B </s>."""
    cls, sep = vocab.special["cls"], vocab.special["sep"]
    vocab.single = [(cls, 0), (TEXT_A, 0), (sep, 0)]
    vocab.pair = vocab.single + ([(TEXT_B, 1), (sep, 1)] if vocab.model == "bert" else [(sep, 0), (TEXT_B, 0), (sep, 0)])
    vocab.unknown = -1 if vocab.model == "gpt2" else vocab.special["unk"]
    vocab.trim_offsets = vocab.model == "gpt2"


def _lines(path: Path) -> list:
    try:
        # split at "\n" alone: vocabularies hold characters such as U+2028 and U+0085, which splitlines() would cut at
        lines = path.read_bytes().decode("utf-8").split("\n")
    except OSError as e:
        raise ConvertError(f"{path}: {e.strerror}") from None
    except UnicodeDecodeError:
        raise ConvertError(f"{path}: not UTF-8 text") from None
    lines = [line[:-1] if line.endswith("\r") else line for line in lines]
    return lines[:-1] if lines and not lines[-1] else lines


def _bpe(folder: Path) -> Vocab:
    vocab = read_json(folder / "vocab.json")
    if not all(isinstance(i, int) for i in vocab.values()):
        raise ConvertError(f"{folder / 'vocab.json'}: an id is not a number")
    lines = _lines(folder / "merges.txt")
    merges = [line for line in (lines[1:] if lines and lines[0].startswith("#version") else lines) if line]
    for line in merges:
        if line.count(" ") != 1:
            raise ConvertError(f"{folder / 'merges.txt'}: not a pair: {line!r}")
    settings = read_json_if(folder / "tokenizer_config.json")
    split = "byte_words_prefix" if settings.get("add_prefix_space") is True else "byte_words"
    return Vocab("gpt2", "roberta-bpe", {i: text for text, i in vocab.items()}, merges=merges, split=[split])


def _wordpiece(folder: Path) -> Vocab:
    settings = read_json_if(folder / "tokenizer_config.json")
    lower = settings.get("do_lower_case", True) is not False
    accents = settings.get("strip_accents")
    cjk = settings.get("tokenize_chinese_chars", True) is not False
    steps = ["clean"] + ["cjk"] * cjk + ["nfd", "strip_mn"] * (lower if accents is None else bool(accents)) + ["lowercase"] * lower
    return Vocab("bert", "default", dict(enumerate(_lines(folder / "vocab.txt"))), normalize=steps, split=["bert"])


def _unigram(folder: Path, family: str) -> Vocab:
    """Hugging Face renumbers sentencepiece's pieces, which begin with <unk>, <s>, </s>."""
    spm = read_sentencepiece(folder / "sentencepiece.bpe.model")
    if [p[0] for p in spm.pieces[:3]] != ["<unk>", "<s>", "</s>"]:
        raise ConvertError(f"{folder / 'sentencepiece.bpe.model'}: does not begin with <unk>, <s>, </s>")
    tokenizer = str(read_json_if(folder / "tokenizer_config.json").get("tokenizer_class", family)).lower()
    if tokenizer.startswith("camembert"):
        head = [("<s>NOTUSED", 0.0), ("<pad>", 0.0), ("</s>NOTUSED", 0.0), ("<unk>", 0.0), ("<unk>NOTUSED", -100.0)]
        pieces = head + spm.pieces[1:]
    else:
        pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)] + spm.pieces[3:]
    pieces = pieces + [("<mask>", 0.0)]
    return Vocab("t5", "default", {i: p[0] for i, p in enumerate(pieces)}, scores={i: p[1] for i, p in enumerate(pieces)},
                 charsmap=spm.charsmap, normalize=["charsmap"] if spm.charsmap else [],
                 split=["whitespace"] * spm.remove_extra_whitespaces + [_meta(spm)])


def _meta(spm) -> str:
    return "meta_always" if spm.add_dummy_prefix else "meta_later" if spm.remove_extra_whitespaces else "meta_never"
