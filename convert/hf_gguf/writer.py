"""Writes the GGUF: under a temporary name beside the target, renamed when complete, one tensor in memory at a time."""
from __future__ import annotations

import os
from pathlib import Path
from typing import Callable

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Q

from .errors import ConvertError
from .metadata import U32, F64s
from .tensors import Output

NEVER_QUANTIZED = ("position_embd.weight", "token_types.weight", "cls.output.weight", "tag.output.weight", "sparse.weight")
ROWS_AT_ONCE = 4096


def storage_type(output: Output, type_: str) -> Q:
    """Norms, biases, positions and token types stay F32; rows that Q8_0 cannot split into blocks of 32 become F16, and so do the
    matrices of attention's values, whose errors go straight into the output (mra-quantize does the same)."""
    if type_ == "f32" or len(output.shape) == 1 or output.name in NEVER_QUANTIZED:
        return Q.F32
    if type_ == "f16" or output.shape[-1] % 32 or output.name.endswith(".attn_v.weight"):
        return Q.F16
    return Q.Q8_0


def encode(output: Output, dtype: Q) -> np.ndarray:
    values = np.ascontiguousarray(output.load(), np.float32)
    if not np.isfinite(values).all():
        raise ConvertError(f"tensor {output.name} holds infinities or NaN")
    if dtype is Q.F32:
        return values
    if dtype is Q.F16:
        if np.abs(values).max(initial=0) > np.finfo(np.float16).max:
            raise ConvertError(f"tensor {output.name} does not fit into f16: use --type f32")
        return values.astype(np.float16)
    parts = [gguf.quants.quantize(values[i:i + ROWS_AT_ONCE], dtype) for i in range(0, len(values), ROWS_AT_ONCE)]
    return np.concatenate(parts)


def write_gguf(path: Path, meta: dict, outputs: list[Output], type_: str, progress: Callable[[int, int, str], None]) -> int:
    """Returns the size of the file. progress(bytes done, bytes in all, tensor) is called before each tensor."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        try:
            _write(temporary, meta, outputs, type_, progress)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        return path.stat().st_size
    except OSError as e:
        # numpy reports a short write without an errno
        raise ConvertError(f"{path}: cannot write: {e.strerror or 'no space left on device?'}") from None


def _write(path: Path, meta: dict, outputs: list[Output], type_: str, progress) -> None:
    writer = gguf.GGUFWriter(path, meta["general.architecture"])
    for key, value in meta.items():
        if key != "general.architecture":
            _add(writer, key, value)
    types, sizes = [], []
    for output in outputs:
        dtype = storage_type(output, type_)
        block, block_bytes = gguf.GGML_QUANT_SIZES[dtype]
        types.append(dtype)
        sizes.append(int(np.prod(output.shape)) // block * block_bytes)
        if dtype is Q.Q8_0:  # gguf wants the shape in bytes for raw types
            shape = (*output.shape[:-1], output.shape[-1] // block * block_bytes)
            writer.add_tensor_info(output.name, shape, np.dtype(np.uint8), sizes[-1], raw_dtype=dtype)
        else:
            writer.add_tensor_info(output.name, output.shape, np.dtype(np.float32), sizes[-1], raw_dtype=dtype)
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        done = 0
        for output, dtype, size in zip(outputs, types, sizes):
            progress(done, sum(sizes), output.name)
            writer.write_tensor_data(encode(output, dtype))
            done += size
        progress(done, sum(sizes), "")
        for f in writer.fout:
            f.flush()
            os.fsync(f.fileno())
    finally:
        for f in writer.fout or []:
            _close(f)


def _close(f) -> None:
    try:
        f.close()
    except OSError:  # what was buffered does not fit either; the first error is the one to report
        pass


def _add(writer: gguf.GGUFWriter, key: str, value) -> None:
    if isinstance(value, U32):
        writer.add_uint32(key, value.value)
    elif isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    elif isinstance(value, F64s):
        writer.add_key_value(key, value.values, gguf.GGUFValueType.ARRAY, sub_type=gguf.GGUFValueType.FLOAT64)
    elif value:
        writer.add_array(key, value)
