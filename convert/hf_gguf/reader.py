"""Typed access to config.json; says which key of which file is wrong."""
from __future__ import annotations

from pathlib import Path

from .errors import ConvertError, read_json, shown


class Reader:
    def __init__(self, path: Path):
        self.path, self.values = path, read_json(path)

    def get(self, *keys: str, default=None):
        """The value of the first of the keys that has one."""
        return next((self.values[k] for k in keys if self.values.get(k) is not None), default)

    def int(self, *keys: str, default=None, low: int = 1) -> int:
        value = self.get(*keys, default=default)
        if value is None:
            raise ConvertError(f"{self.path}: no {keys[0]}")
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value < 2**31:
            key = next((k for k in keys if self.values.get(k) is not None), keys[0])
            raise ConvertError(f"{self.path}: {key} = {shown(value)} is not a number from {low} on")
        return value

    def positive(self, what: str, value) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e30:
            self.fail(f"{what} = {shown(value)} is not a positive number")
        return float(value)

    def only(self, key: str, *allowed) -> None:
        """A key that must be absent or one of these."""
        value = self.values.get(key)
        if value is not None and value not in allowed:
            self.fail(f"{key} {shown(value)} is not supported")

    def fail(self, message: str):
        raise ConvertError(f"{self.path}: {message}")
