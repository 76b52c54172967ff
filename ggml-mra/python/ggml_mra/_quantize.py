"""Embeddings in fewer bytes, as sentence-transformers' quantize_embeddings makes them."""
from __future__ import annotations

import warnings

import numpy as np

from ._errors import ArgumentError
from ._model import choice

PRECISIONS = ("float32", "int8", "uint8", "binary", "ubinary")


def quantize_embeddings(embeddings: np.ndarray, precision: str, ranges: np.ndarray | None = None,
                        calibration_embeddings: np.ndarray | None = None) -> np.ndarray:
    """[n, d] floats -> int8 or uint8 [n, d], or a bit per number: binary (int8), ubinary (uint8) [n, (d + 7)/8].

    int8 and uint8 share the 256 values among ranges [2, d], the least and the largest value of each dimension: given, or those of
    calibration_embeddings, or of the embeddings themselves - then vectors of two calls cannot be compared with each other.
    A bit says whether a number is positive.
    """
    choice("precision", precision, PRECISIONS)
    embeddings = np.asarray(embeddings)
    if embeddings.ndim != 2 or embeddings.dtype.kind != "f":
        raise ArgumentError(f"embeddings of shape {embeddings.shape} and type {embeddings.dtype} are not rows of floats")
    if precision == "float32":
        return embeddings.astype(np.float32)
    if precision in ("binary", "ubinary"):
        bits = np.packbits(embeddings > 0, axis=1)
        return bits if precision == "ubinary" else (bits.astype(np.int16) - 128).astype(np.int8)
    if ranges is None:
        sample = embeddings if calibration_embeddings is None else np.asarray(calibration_embeddings)
        if len(embeddings) == 0:
            return embeddings.astype(precision)
        if len(sample) < 2:
            raise ArgumentError(f"precision={precision!r}: there are no ranges of {len(sample)} embeddings; quantize_embeddings takes ranges or "
                                "calibration_embeddings")
        if len(sample) < 100:
            warnings.warn(f"precision={precision!r}: the ranges of {len(sample)} embeddings are used; with fewer than 100 they "
                          "may be poor: give ranges or calibration_embeddings", stacklevel=3)
        ranges = np.stack([sample.min(axis=0), sample.max(axis=0)])
    ranges = np.asarray(ranges, dtype=np.float32)
    if ranges.shape != (2, embeddings.shape[1]):
        raise ArgumentError(f"ranges have the shape {ranges.shape}, not (2, {embeddings.shape[1]})")
    step = (ranges[1] - ranges[0]) / 255
    # values outside of the ranges become the nearest end instead of wrapping around
    level = np.floor((embeddings - ranges[0]) / np.where(step == 0, 1, step)).clip(0, 255)
    return level.astype(np.uint8) if precision == "uint8" else (level - 128).astype(np.int8)
