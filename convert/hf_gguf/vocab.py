"""The tokenizer as it goes into the file, and the choice of where to read it from."""
from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .errors import ConvertError, read_json_if, shown

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6          # tokenizer.ggml.token_type
LSTRIP, RSTRIP, SINGLE_WORD, NORMALIZED, SPECIAL, ADDED_ONLY = 1, 2, 4, 8, 16, 32    # mra.tokenizer.added.flags
TEXT_A, TEXT_B = -1, -2                                                  # in mra.tokenizer.single.ids and pair.ids
MAX_ID = 2**31 - 1

SPECIAL_NAMES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
ANGLE = {"bos": "<s>", "eos": "</s>", "unk": "<unk>", "sep": "</s>", "pad": "<pad>", "cls": "<s>", "mask": "<mask>"}
BRACKET = {"bos": "[CLS]", "eos": "[SEP]", "unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}


@dataclass
class Vocab:
    model: str                                     # tokenizer.ggml.model: gpt2 | t5 | bert
    pre: str                                       # tokenizer.ggml.pre
    pieces: dict                                   # id -> text, as Hugging Face spells it
    special: dict = field(default_factory=dict)    # of SPECIAL_NAMES -> id
    added: dict = field(default_factory=dict)      # id -> flags, of tokens found in the text as a whole
    types: dict = field(default_factory=dict)      # id -> type, where it is not NORMAL
    merges: list = field(default_factory=list)     # gpt2: "left right"
    scores: dict = field(default_factory=dict)     # t5: id -> log probability
    charsmap: bytes = b""                          # t5: sentencepiece's normalization table
    normalize: list = field(default_factory=list)  # steps by name, as the runtime knows them
    split: list = field(default_factory=list)
    single: list = field(default_factory=list)     # (id or TEXT_A, token type): the template of one text
    pair: list = field(default_factory=list)       # and of two
    unknown: int = -1                              # for what the model cannot spell
    max_word_chars: int = 100                      # bert
    trim_offsets: bool = False
    whole_words: bool = False                      # gpt2: a word that is a token is that token, whatever the merges make of it

    @property
    def double_sep(self) -> bool:
        """A pair is A sep sep B, not A sep B."""
        ids = [i for i, _ in self.pair]
        return abs(ids.index(TEXT_B) - ids.index(TEXT_A)) > 2

    def columns(self, n_vocab: int) -> tuple:
        """(tokens, types) of n_vocab rows; ids nobody uses are filled up as llama.cpp does."""
        if self.pieces and max(self.pieces) >= n_vocab:
            raise ConvertError(f"the tokenizer's ids go up to {max(self.pieces)}, the model has {n_vocab} embeddings")
        tokens, types = [], []
        for i in range(n_vocab):
            if i not in self.pieces:
                tokens.append(f"[PAD{i}]")
                types.append(UNUSED)
                continue
            kind = self.types.get(i, NORMAL)
            if "\0" in self.pieces[i]:
                raise ConvertError(f"token {i} = {shown(self.pieces[i])} holds a NUL character")
            tokens.append(_phantom(self.pieces[i], kind) if self.model == "bert" else self.pieces[i])
            types.append(kind)
        return tokens, types


def _phantom(piece: str, kind: int) -> str:
    """WordPiece in GGUF marks where a word begins instead of where it goes on."""
    if kind in (CONTROL, UNKNOWN):
        return piece
    return piece[2:] if piece.startswith("##") else "\u2581" + piece


def load_vocab(folder: Path, family: str, n_vocab: int) -> Vocab:
    from . import vocab_files, vocab_json

    if (folder / "tokenizer.json").is_file():
        vocab = vocab_json.read_tokenizer_json(folder / "tokenizer.json")
    else:
        vocab = vocab_files.read_vocab_files(folder, family)
    _special_ids(vocab, folder)
    if not vocab.single:
        vocab_files.set_template(vocab)
    for key, i in vocab.special.items():
        if vocab.types.get(i) == CONTROL and key == "unk":
            vocab.types[i] = UNKNOWN
    if min(vocab.pieces) < 0:
        raise ConvertError(f"{folder}: the tokenizer has negative ids")
    vocab.columns(n_vocab)
    return vocab


def _special_ids(vocab: Vocab, folder: Path) -> None:
    """Ids of the special tokens by the texts in tokenizer_config.json, special_tokens_map.json, or the customary ones."""
    texts = dict(BRACKET if vocab.model == "bert" else ANGLE)
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        entries = read_json_if(folder / name)
        for key in SPECIAL_NAMES:
            entry = entries.get(f"{key}_token")
            entry = entry.get("content") if isinstance(entry, dict) else entry
            if isinstance(entry, str):
                texts[key] = entry
        if entries.get("split_special_tokens") is True:
            raise ConvertError(f"{folder / name}: split_special_tokens = True is not supported")
    ids = {text: i for i, text in vocab.pieces.items()}
    for key, other in (("cls", "bos"), ("sep", "eos")):  # tokenizers of decoders have names for these two only
        if texts[key] not in ids and texts.get(other) in ids:
            texts[key] = texts[other]
    for key, text in texts.items():
        if text in ids:
            vocab.special[key] = ids[text]
        elif key in ("cls", "sep") or (key in ("unk", "pad") and vocab.model != "gpt2"):
            raise ConvertError(f"{folder}: the tokenizer has no {key} token {text!r}")
    vocab.special.setdefault("bos", vocab.special["cls"])
    vocab.special.setdefault("eos", vocab.special["sep"])


def sentence_bert_lowercase(vocab: Vocab, folder: Path) -> None:
    """sentence-transformers can lower-case the text before the tokenizer sees it: [SEP] in it is then no special token any more."""
    if read_json_if(folder / "sentence_bert_config.json").get("do_lower_case") is not True:
        return
    if vocab.model != "bert":
        raise ConvertError(f"{folder}: do_lower_case of sentence-transformers is supported for WordPiece only")
    vocab.added = {i: flags for i, flags in vocab.added.items() if flags & NORMALIZED or vocab.pieces[i] == vocab.pieces[i].lower()}
    for i, flags in vocab.added.items():
        if not flags & NORMALIZED and vocab.pieces[i] != vocab.pieces[i].upper():
            raise ConvertError(f"{folder}: do_lower_case of sentence-transformers with the added token {shown(vocab.pieces[i])} is not supported")
    vocab.normalize.insert(0, "lowercase")


def byte_symbols() -> list:
    """GPT-2's printable stand-in for each of the 256 bytes."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    spare = iter(range(0x100, 0x200))
    return [chr(b) if b in printable else chr(next(spare)) for b in range(256)]
