"""pytorch_model.bin without torch: the pickle may name nothing but what rebuilds a tensor, so nothing in it is executed.

Two layouts: a zip archive (torch >= 1.6: X/data.pkl, X/data/KEY) and the older sequence of pickles followed by the storages.
A tensor is (storage, offset, shape, stride); views of one storage share it.
"""
from __future__ import annotations

import collections
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Callable, NamedTuple

import numpy as np

from .checkpoint import BF16, Tensor, decode, is_float, item_size
from .errors import ConvertError

STORAGE_TYPES = {
    "DoubleStorage": np.dtype("<f8"), "FloatStorage": np.dtype("<f4"), "HalfStorage": np.dtype("<f2"), "BFloat16Storage": BF16,
    "LongStorage": np.dtype("<i8"), "IntStorage": np.dtype("<i4"), "ShortStorage": np.dtype("<i2"), "CharStorage": np.dtype("i1"),
    "ByteStorage": np.dtype("u1"), "BoolStorage": np.dtype("?"),
}
LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
MAX_PICKLE = 256 << 20


# Tuples on purpose: a pickle can change the attributes of an ordinary object after it was checked.
class StorageType(NamedTuple):
    dtype: object


class Storage(NamedTuple):
    key: str
    dtype: object
    numel: int


class View(NamedTuple):
    storage: Storage
    offset: int
    shape: tuple
    stride: tuple


def _rebuild_tensor(storage, offset, shape, stride, *_):
    if not isinstance(storage, Storage):
        raise ConvertError("a tensor without a storage")
    view = View(storage, int(offset), tuple(int(x) for x in shape), tuple(int(x) for x in stride))
    if len(view.shape) != len(view.stride) or min(view.shape + view.stride + (view.offset,)) < 0:
        raise ConvertError("a tensor with a bad shape or stride")
    last = view.offset + sum((n - 1) * s for n, s in zip(view.shape, view.stride))
    if 0 not in view.shape and last >= storage.numel:
        raise ConvertError(f"a tensor that reaches beyond its storage {storage.key}")
    return view


def _rebuild_parameter(data, *_):
    return data


class TensorUnpickler(pickle.Unpickler):
    """Resolves the few names a state dict needs and refuses all others before anything is called."""

    ALLOWED = {
        ("collections", "OrderedDict"): collections.OrderedDict,
        ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
        ("torch._utils", "_rebuild_tensor"): _rebuild_tensor,
        ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
    }

    def find_class(self, module, name):
        if module == "torch" and name in STORAGE_TYPES:
            return StorageType(STORAGE_TYPES[name])
        if (module, name) in self.ALLOWED:
            return self.ALLOWED[module, name]
        raise ConvertError(f"the pickle asks for {module}.{name}, which is not allowed")

    def persistent_load(self, pid):
        try:
            kind, storage_type, key, _, numel = pid[:5]
        except (TypeError, ValueError):
            raise ConvertError("bad storage reference") from None
        if kind != "storage" or not isinstance(storage_type, StorageType) or (len(pid) > 5 and pid[5] is not None):
            raise ConvertError("bad storage reference")
        return Storage(str(key), storage_type.dtype, int(numel))


def open_torch(path: Path) -> dict[str, Tensor]:
    try:
        if zipfile.is_zipfile(path):
            state, fetch = _open_zip(path)
        else:
            state, fetch = _open_legacy(path)
    except ConvertError as e:
        raise ConvertError(f"{path}: {e}") from None
    except OSError as e:
        raise ConvertError(f"{path}: {e.strerror or e}") from None
    except MemoryError:
        raise ConvertError(f"{path}: the pickle does not fit into memory") from None
    except Exception as e:  # pickle raises nearly anything on damaged input
        raise ConvertError(f"{path}: damaged or truncated ({type(e).__name__}: {e})") from None
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    if not isinstance(state, dict):
        raise ConvertError(f"{path}: holds no dictionary of tensors")
    return {name: _tensor(path, name, view, fetch) for name, view in state.items() if isinstance(view, View)}


def _tensor(path: Path, name: str, view: View, fetch: Callable[[Storage], bytes]) -> Tensor:
    def load():
        dtype = view.storage.dtype
        raw = fetch(view.storage)
        if len(raw) < view.storage.numel * item_size(dtype):
            raise ConvertError(f"{path}: truncated: the storage of tensor {name} has {len(raw)} bytes")
        flat = decode(raw[:view.storage.numel * item_size(dtype)], dtype)
        strides = tuple(s * flat.itemsize for s in view.stride)
        if 0 in view.shape:
            return np.zeros(view.shape, flat.dtype)
        return np.ascontiguousarray(np.lib.stride_tricks.as_strided(flat[view.offset:], view.shape, strides))

    return Tensor(str(name), view.shape, path.name, is_float(view.storage.dtype), load)


def _open_zip(path: Path):
    archive = zipfile.ZipFile(path)
    names = archive.namelist()
    pickles = [n for n in names if n.count("/") == 1 and n.endswith("/data.pkl")]
    if len(pickles) != 1:
        raise ConvertError("not a PyTorch checkpoint (no data.pkl)")
    root = pickles[0][:-len("data.pkl")]
    if f"{root}byteorder" in names and archive.read(f"{root}byteorder").strip() != b"little":
        raise ConvertError("big-endian checkpoints are not supported")
    if archive.getinfo(pickles[0]).file_size > MAX_PICKLE:
        raise ConvertError("data.pkl is unreasonably large")
    with archive.open(pickles[0]) as f:
        state = TensorUnpickler(f, encoding="latin1").load()

    def fetch(storage: Storage) -> bytes:
        try:
            info = archive.getinfo(f"{root}data/{storage.key}")
            if info.file_size > path.stat().st_size:  # storages are never compressed
                raise ConvertError(f"{path}: storage {storage.key} is damaged")
            return archive.read(info)
        except KeyError:
            raise ConvertError(f"{path}: truncated: storage {storage.key} is missing") from None
        except ConvertError:
            raise
        except Exception as e:  # zipfile raises nearly anything on damaged input, too
            raise ConvertError(f"{path}: storage {storage.key} is damaged ({e})") from None

    return state, fetch


def _open_legacy(path: Path):
    """Pickles: magic, protocol version, system, state dict, storage keys. Then per key i64 count and the elements."""
    storages: dict[str, Storage] = {}

    class Recording(TensorUnpickler):
        def persistent_load(self, pid):
            storage = super().persistent_load(pid)
            return storages.setdefault(storage.key, storage)

    with open(path, "rb") as f:
        def load():
            return Recording(f, encoding="latin1").load()

        if f.read(1) != b"\x80" or f.seek(0) or load() != LEGACY_MAGIC:
            raise ConvertError("not a PyTorch checkpoint")
        load()
        if load().get("little_endian") is False:
            raise ConvertError("big-endian checkpoints are not supported")
        state = load()
        offsets = _legacy_offsets(f, load(), storages, path.stat().st_size)

    def fetch(storage: Storage) -> bytes:
        if storage.key not in offsets:
            raise ConvertError(f"{path}: truncated: storage {storage.key} is missing")
        with open(path, "rb") as f:
            f.seek(offsets[storage.key])
            return f.read(storage.numel * item_size(storage.dtype))

    return state, fetch


def _legacy_offsets(f, keys, storages: dict[str, Storage], end: int) -> dict[str, int]:
    offsets = {}
    for key in keys:
        storage = storages.get(str(key))
        if storage is None:
            raise ConvertError(f"storage {key} belongs to no tensor")
        numel = struct.unpack("<q", f.read(8))[0]
        if numel != storage.numel or numel < 0 or f.tell() + numel * item_size(storage.dtype) > end:
            raise ConvertError(f"truncated at storage {key}")
        offsets[storage.key] = f.tell()
        f.seek(numel * item_size(storage.dtype), 1)
    return offsets
