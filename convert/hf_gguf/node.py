"""A JSON object whose keys are taken one by one, so that what nobody took can be refused by its name."""
from __future__ import annotations

from .errors import ConvertError, shown


class Node:
    def __init__(self, value, path: str):
        if not isinstance(value, dict):
            raise ConvertError(f"{path} = {shown(value)} is not a JSON object")
        self.path, self.left = path, dict(value)

    def at(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def take(self, key: str, default=None):
        return self.left.pop(key, default)

    def bool(self, key: str, default: bool = False) -> bool:
        value = self.take(key, default)
        if not isinstance(value, bool):
            self.refuse(key, value)
        return value

    def int(self, key: str, low: int, high: int, default=None) -> int:
        value = self.take(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ConvertError(f"{self.at(key)} = {shown(value)} is not a number from {low} to {high}")
        return value

    def string(self, key: str, default=None) -> str:
        value = self.take(key, default)
        if not isinstance(value, str):
            self.refuse(key, value)
        return value

    def list(self, key: str) -> list:
        value = self.take(key)
        if not isinstance(value, list):
            self.refuse(key, value)
        return value

    def node(self, key: str) -> "Node":
        return Node(self.take(key), self.at(key))

    def nodes(self, key: str) -> list:
        return [Node(value, f"{self.at(key)}[{i}]") for i, value in enumerate(self.list(key))]

    def only(self, key: str, *allowed) -> None:
        """The key may be absent or have one of these values."""
        value = self.take(key, allowed[0])
        if not any(value == a and type(value) is type(a) for a in allowed):
            self.refuse(key, value)

    def refuse(self, key: str, value):
        raise ConvertError(f"{self.at(key)} = {shown(value)} is not supported")

    def done(self) -> None:
        for key, value in self.left.items():
            self.refuse(key, value)
