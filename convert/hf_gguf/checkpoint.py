"""Checkpoints as a dict name -> Tensor, read lazily: safetensors or pytorch_model.bin, whole or sharded with an index."""
from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import numpy as np

from .errors import ConvertError, read_json, shown

# bfloat16 is the upper half of a float32: read as u16, widened by a shift
BF16 = "bf16"
SAFETENSORS_TYPES = {
    "F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": BF16,
    "I64": np.dtype("<i8"), "I32": np.dtype("<i4"), "I16": np.dtype("<i2"), "I8": np.dtype("i1"),
    "U8": np.dtype("u1"), "BOOL": np.dtype("?"),
}
MAX_HEADER = 100 << 20


@dataclass
class Tensor:
    name: str
    shape: tuple
    source: str                       # file name, for messages
    is_float: bool
    load: Callable[[], np.ndarray]    # the values; floats as float32

    def read(self) -> np.ndarray:
        if not self.is_float:
            raise ConvertError(f"{self.source}: tensor {self.name} does not hold floating-point numbers")
        return self.load()


def item_size(dtype) -> int:
    return 2 if dtype is BF16 else dtype.itemsize


def is_float(dtype) -> bool:
    return dtype is BF16 or dtype.kind == "f"


def decode(raw, dtype) -> np.ndarray:
    """Flat array of a buffer: floats as float32."""
    if dtype is BF16:
        return (np.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4")
    values = np.frombuffer(raw, dtype)
    with np.errstate(over="ignore"):  # float64 beyond float32 becomes inf, which writing refuses
        return values.astype(np.float32) if is_float(dtype) else values


def open_checkpoint(folder: Path) -> dict[str, Tensor]:
    """All tensors of a model folder. safetensors win over pickles, as everywhere."""
    for whole, opener in (("model.safetensors", open_safetensors), ("pytorch_model.bin", _open_torch)):
        index = folder / f"{whole}.index.json"
        if (folder / whole).is_file():
            return opener(folder / whole)
        if index.is_file():
            return _open_shards(folder, index, opener)
    raise ConvertError(f"{folder}: no model.safetensors and no pytorch_model.bin")


def _open_torch(path: Path) -> dict[str, Tensor]:
    from .torch_file import open_torch
    return open_torch(path)


def _open_shards(folder: Path, index: Path, opener) -> dict[str, Tensor]:
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ConvertError(f"{index}: no weight_map")
    tensors: dict[str, Tensor] = {}
    for shard in sorted({str(s) for s in weight_map.values()}):
        if Path(shard).name != shard:
            raise ConvertError(f"{index}: shard name {shown(shard)} leaves the folder")
        if len(shard.encode("utf-8", "replace")) > 255:
            raise ConvertError(f"{index}: the shard name {shown(shard)} is too long")
        if not (folder / shard).is_file():
            raise ConvertError(f"{folder / shard}: no such file (named by {index.name})")
        tensors.update(opener(folder / shard))
    for name in weight_map:
        if name not in tensors:
            raise ConvertError(f"{index}: tensor {name} is in none of the shards")
    return tensors


def open_safetensors(path: Path) -> dict[str, Tensor]:
    """File: u64 header length, JSON header {name: {dtype, shape, data_offsets}}, data."""
    try:
        size = path.stat().st_size
        with open(path, "rb") as f:
            head = f.read(8)
            n = struct.unpack("<Q", head)[0] if len(head) == 8 else size
            if 8 + n > size:
                raise ConvertError(f"{path}: truncated: the header says {n} bytes, the file has {size}")
            if n > MAX_HEADER:
                raise ConvertError(f"{path}: not a safetensors file (header of {n} bytes)")
            text = f.read(n)
        data = np.memmap(path, np.uint8, "r") if size > 8 + n else np.zeros(8 + n, np.uint8)
    except OSError as e:
        raise ConvertError(f"{path}: {e.strerror}") from None
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise ConvertError(f"{path}: bad JSON in the header") from None
    if not isinstance(header, dict):
        raise ConvertError(f"{path}: bad header")
    header.pop("__metadata__", None)
    return {name: _safetensor(path, name, entry, data, 8 + n) for name, entry in header.items()}


def _safetensor(path: Path, name: str, entry, data: np.ndarray, base: int) -> Tensor:
    try:
        dtype, shape = SAFETENSORS_TYPES.get(entry["dtype"]), tuple(int(x) for x in entry["shape"])
        begin, end = (int(x) for x in entry["data_offsets"])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise ConvertError(f"{path}: bad header entry for tensor {name}") from None
    if dtype is None:
        raise ConvertError(f"{path}: tensor {name} has the unsupported type {entry['dtype']}")
    if min(shape, default=0) < 0 or begin < 0 or end - begin != math.prod(shape) * item_size(dtype):
        raise ConvertError(f"{path}: tensor {name}: {end - begin} bytes do not hold {entry['dtype']} {list(shape)}")
    if base + end > data.size:
        raise ConvertError(f"{path}: truncated: tensor {name} ends at byte {base + end}, the file has {data.size}")
    load = lambda: decode(data[base + begin:base + end], dtype).reshape(shape)
    return Tensor(name, shape, path.name, is_float(dtype), load)
