"""What the converter's tests share: tiny folders, reading a GGUF back, and writing checkpoints as torch does, without torch."""
from __future__ import annotations

import contextlib
import io
import json
import pickle
import shutil
import sys
import tempfile
import types
import unittest
import zipfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "golden"
sys.path[:0] = [str(ROOT / "convert"), str(GOLDEN)]

import gguf
from safetensors.numpy import load_file, save_file

import convert_hf
from make_random import Shape, make_model

__all__ = ["FolderTest", "GOLDEN", "Shape", "convert_hf", "edit_json", "gguf", "load_file", "make_model", "save_file", "save_torch", "tiny"]


def tiny(family: str, head: str = "all", **options) -> Shape:
    settings = dict(layers=2, hidden=32, heads=2, ff=64, vocab=280, positions=40, family=family, head=head, labels=3, seed=5)
    return Shape(**{**settings, **options})


def edit_json(path: Path, **changes) -> None:
    """Sets keys of a JSON file; a value of None removes the key."""
    data = json.loads(path.read_text(encoding="utf-8"))
    for key, value in changes.items():
        if value is None:
            data.pop(key, None)
        else:
            data[key] = value
    path.write_text(json.dumps(data), encoding="utf-8")


class FolderTest(unittest.TestCase):
    """Every test gets its own folder self.dir; self.folder is a model inside, self.out the file to write."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.dir = Path(temporary.name)
        self.folder, self.out = self.dir / "model", self.dir / "out.gguf"

    def make(self, family: str, head: str = "all", **options) -> dict:
        """Writes the folder afresh; returns its tensors."""
        shutil.rmtree(self.folder, ignore_errors=True)
        make_model(self.folder, tiny(family, head, **options))
        return load_file(self.folder / "model.safetensors")

    def weights(self, tensors: dict) -> None:
        save_file({k: np.ascontiguousarray(v) for k, v in tensors.items()}, str(self.folder / "model.safetensors"))

    def convert(self, type_: str = "f32", **options) -> tuple:
        """(metadata, tensors as float32, tensor types) of the converted folder."""
        convert_hf.convert(self.folder, self.out, type_, **options)
        reader = gguf.GGUFReader(self.out)
        meta = {key: field.contents() for key, field in reader.fields.items()}
        tensors = {t.name: gguf.quants.dequantize(np.array(t.data), t.tensor_type) for t in reader.tensors}
        return meta, tensors, {t.name: t.tensor_type.name for t in reader.tensors}

    def run_main(self, *args) -> tuple:
        """(exit status, stderr) of the command line."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = convert_hf.main([str(a) for a in args])
            except SystemExit as e:
                status = e.code
        return status, err.getvalue()

    def assert_refused(self, *words: str, args: tuple = ()) -> None:
        """The folder is refused with one line on stderr holding these words, and no file is left behind."""
        status, err = self.run_main(self.folder, "-o", self.out, *args)
        self.assertEqual(status, 1, err)
        self.assertEqual(err.count("\n"), 1, err)
        for word in words:
            self.assertIn(word, err)
        self.assertEqual([p.name for p in self.dir.iterdir() if "gguf" in p.name], [])


class _Storage:
    def __init__(self, key: str, kind: type, values: np.ndarray):
        self.key, self.kind, self.values = key, kind, values


class _Tensor:
    def __init__(self, rebuild, storage: _Storage):
        self.rebuild, self.storage = rebuild, storage

    def __reduce__(self):
        shape = self.storage.values.shape
        stride = tuple(s // self.storage.values.itemsize for s in self.storage.values.strides)
        return self.rebuild, (self.storage, 0, shape, stride, False, {})


class _Pickler(pickle.Pickler):
    def persistent_id(self, obj):
        if isinstance(obj, _Storage):
            return "storage", obj.kind, obj.key, "cpu", obj.values.size
        return None


def save_torch(path: Path, tensors: dict, extra: dict | None = None) -> None:
    """pytorch_model.bin in torch's zip format. extra: further entries to pickle as they are."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    torch._utils = utils
    for name in ("FloatStorage", "HalfStorage"):
        setattr(torch, name, type(name, (), {"__module__": "torch"}))

    def rebuild(*_):
        raise AssertionError
    rebuild.__module__, rebuild.__qualname__, rebuild.__name__ = "torch._utils", "_rebuild_tensor_v2", "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2 = rebuild
    kinds = {np.dtype(np.float32): torch.FloatStorage, np.dtype(np.float16): torch.HalfStorage}
    storages = [_Storage(str(i), kinds[v.dtype], np.ascontiguousarray(v)) for i, v in enumerate(tensors.values())]
    state = {**{name: _Tensor(rebuild, s) for name, s in zip(tensors, storages)}, **(extra or {})}
    saved = {name: sys.modules.get(name) for name in ("torch", "torch._utils")}
    sys.modules.update({"torch": torch, "torch._utils": utils})
    try:
        data = io.BytesIO()
        _Pickler(data, 2).dump(state)
    finally:
        for name, module in saved.items():
            sys.modules.pop(name) if module is None else sys.modules.update({name: module})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", data.getvalue())
        archive.writestr("archive/byteorder", "little")
        for s in storages:
            archive.writestr(f"archive/data/{s.key}", s.values.tobytes())
