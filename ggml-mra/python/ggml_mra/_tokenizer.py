"""Texts -> tokens, as Hugging Face's `tokenizers` does it."""
from __future__ import annotations

import ctypes as c
import os
from dataclasses import dataclass

import numpy as np

from . import _library as l
from ._model import Base, Model


@dataclass(frozen=True)
class Encoding:
    """Tokens of a text or a pair; all lists have the same length."""

    ids: list[int]
    type_ids: list[int]  # 1 in the second text of a BERT pair
    tokens: list[str]  # the text of each token, "" where it has none
    offsets: list[tuple[int, int]]  # characters of its text; (0, 0) for added tokens
    sequence_ids: list[int | None]  # 0 or 1: which text; None: added
    special_tokens_mask: list[int]  # 1: added

    def __len__(self) -> int:
        return len(self.ids)


class Tokenizer:
    """Tokenizer("model.gguf").encode("a text").ids"""

    def __init__(self, model: "str | os.PathLike[str] | Base"):
        self._model = model._model if isinstance(model, Base) else Model(model)
        self._handle = self._model.tokenizer

    def get_vocab_size(self) -> int:
        return l.lib.mra_tokenizer_n_tokens(self._handle)

    def token_to_id(self, token: str) -> int | None:
        """Of a token as the vocabulary spells it."""
        b = token.encode("utf-8")
        found = l.lib.mra_tokenizer_find(self._handle, b, len(b))
        return None if found < 0 else found

    def id_to_text(self, id: int) -> str:
        """The text of a token; what is not whole UTF-8 is shown as U+FFFD."""
        buffer = c.create_string_buffer(64)
        n = l.lib.mra_tokenizer_text(self._handle, id, buffer, 64)
        if n > 64:
            buffer = c.create_string_buffer(n)
            l.lib.mra_tokenizer_text(self._handle, id, buffer, n)
        return buffer.raw[:n].decode("utf-8", "replace")

    def encode(self, sequence: str, pair: str | None = None, add_special_tokens: bool = True) -> Encoding:
        """A text of any length, whole."""
        texts = [sequence] if pair is None else [sequence, pair]
        for text in texts:
            if not isinstance(text, str):
                raise TypeError(f"{type(text).__name__} is not str")
        raw = [text.encode("utf-8") for text in texts]
        out = l.TokenList()
        b = raw[1] if len(raw) > 1 else None
        flags = l.CONSTANTS["MRA_TOKENIZE_ADD_SPECIAL"] if add_special_tokens else 0
        l.call("mra_tokenize", self._handle, raw[0], len(raw[0]), b, len(b or b""), flags, c.byref(out))
        tokens = [out.data[i] for i in range(out.n)]
        at = [_characters(r) for r in raw]
        return Encoding(
            [t.id for t in tokens], [t.segment if t.segment < self._model.info.n_types else 0 for t in tokens],
            [self.id_to_text(t.id) for t in tokens],
            [(0, 0) if t.text < 0 else (int(at[t.text][t.start]), int(at[t.text][t.end])) for t in tokens],
            [None if t.text < 0 else t.text for t in tokens], [int(t.text < 0) for t in tokens])

    def encode_batch(self, input: list, add_special_tokens: bool = True) -> list[Encoding]:
        """Texts, or pairs of texts."""
        return [self.encode(x, add_special_tokens=add_special_tokens) if isinstance(x, str) else
                self.encode(*x, add_special_tokens=add_special_tokens) for x in input]

    def count(self, text: str) -> int:
        """Tokens of a text, special tokens included."""
        return len(self.encode(text))


def _characters(text: bytes) -> np.ndarray:
    """[len + 1]: the character at each byte; inside of a character the next one."""
    starts = (np.frombuffer(text, np.uint8) & 0xC0) != 0x80
    return np.concatenate([[0], np.cumsum(starts)])
