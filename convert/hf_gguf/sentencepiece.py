"""The few fields of a sentencepiece model (a protobuf message) the converter needs.

ModelProto: 1 pieces {1 text, 2 score, 3 type}, 2 trainer_spec {3 model_type}, 3 normalizer_spec {2 charsmap, 3 add_dummy_prefix,
4 remove_extra_whitespaces}. Protobuf: a stream of (field << 3 | wire type) tags; types 0 varint, 1 64 bits, 2 bytes, 5 32 bits.
"""
from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from .errors import ConvertError

UNIGRAM = 1


@dataclass
class SentencePiece:
    pieces: list                  # (text, score), by sentencepiece's own ids
    charsmap: bytes = b""
    add_dummy_prefix: bool = True
    remove_extra_whitespaces: bool = True


def _varint(data: bytes, at: int) -> tuple:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError("number too long")


def _fields(data: bytes):
    """Yields (field number, value); bytes for types 1, 2 and 5."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(data, at)
        elif kind in (1, 2, 5):
            n, at = _varint(data, at) if kind == 2 else (8 if kind == 1 else 4, at)
            if at + n > len(data):
                raise ValueError("truncated")
            value, at = data[at:at + n], at + n
        else:
            raise ValueError(f"wire type {kind}")
        yield tag >> 3, value


def _bytes(value) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a number in place of bytes")
    return value


def read_sentencepiece(path: Path) -> SentencePiece:
    try:
        return _parse(path.read_bytes())
    except ConvertError as e:
        raise ConvertError(f"{path}: {e}") from None
    except OSError as e:
        raise ConvertError(f"{path}: {e.strerror}") from None
    except (ValueError, IndexError, TypeError, struct.error) as e:
        raise ConvertError(f"{path}: not a sentencepiece model ({e})") from None


def _parse(data: bytes) -> SentencePiece:
    spm = SentencePiece([])
    for number, value in _fields(data):
        if number == 1:
            piece = dict(_fields(value))
            spm.pieces.append((_bytes(piece.get(1, b"")).decode("utf-8"), struct.unpack("<f", _bytes(piece.get(2, bytes(4))))[0]))
        elif number == 2:
            model_type = dict(_fields(value)).get(3, UNIGRAM)
            if model_type != UNIGRAM:
                raise ConvertError("only unigram models of sentencepiece are supported")
        elif number == 3:
            spec = dict(_fields(value))
            spm.charsmap = _bytes(spec.get(2, b""))
            spm.add_dummy_prefix = bool(spec.get(3, 1))
            spm.remove_extra_whitespaces = bool(spec.get(4, 1))
    if not spm.pieces:
        raise ValueError("no pieces")
    return spm
