"""The one error type, and reading JSON so that whatever is wrong with a file becomes one line naming it."""
from __future__ import annotations

import json
from pathlib import Path


class ConvertError(Exception):
    """Something is wrong with what the user gave; the message is one line for them."""


def shown(value) -> str:
    """A value from a file, as a short part of one line."""
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _refuse_surrogates(value, path) -> None:
    """JSON can spell halves of characters, which are no text; nothing that is written may hold one."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack += [*item.keys(), *item.values()]
        elif isinstance(item, list):
            stack += item
        elif isinstance(item, str) and not item.isascii() and any(0xD800 <= ord(c) < 0xE000 for c in item):
            raise ConvertError(f"{path}: the text {shown(item)} holds a lone surrogate")


def read_json(path: Path, kind: type = dict):
    """Content of a JSON file whose top level is a `kind` (dict or list)."""
    try:
        value = json.loads(path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        raise ConvertError(f"{path}: no such file") from None
    except OSError as e:
        raise ConvertError(f"{path}: {e.strerror}") from None
    except UnicodeDecodeError:
        raise ConvertError(f"{path}: not UTF-8 text") from None
    except (ValueError, RecursionError) as e:
        raise ConvertError(f"{path}: bad JSON: {e}") from None
    if not isinstance(value, kind):
        raise ConvertError(f"{path}: expected a JSON {'object' if kind is dict else 'array'} at the top")
    _refuse_surrogates(value, path)
    return value


def read_json_if(path: Path, kind: type = dict):
    """The same, or an empty one where there is no such file."""
    return read_json(path, kind) if path.is_file() else kind()
