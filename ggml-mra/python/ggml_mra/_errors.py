"""Errors of the library as exceptions, with the library's own message."""
from __future__ import annotations


class MraError(RuntimeError):
    """Something failed; the message says what. Its subclasses are also the exceptions one would expect: ValueError, OSError, ..."""


class ArgumentError(MraError, ValueError):
    """A parameter is out of range, or two contradict each other."""


class TooLongError(MraError, ValueError):
    """A text has more tokens than the limit; truncate=True drops its end."""


class FileError(MraError, OSError):
    """A file cannot be opened or read."""


class FormatError(MraError, ValueError):
    """A file is not what it should be, or damaged."""


class UnsupportedError(MraError, NotImplementedError):
    """Valid, but not something this model or this build can do."""


class OutOfMemoryError(MraError, MemoryError):
    """An allocation failed, or a text needs more memory than there is."""


class DeviceError(MraError):
    """There is no such device, or it failed."""


# by enum mra_status
_CLASSES = {1: ArgumentError, 2: ArgumentError, 3: FileError, 4: FormatError, 5: UnsupportedError, 6: TooLongError,
            7: OutOfMemoryError, 8: DeviceError, 9: DeviceError}


def raise_status(status: int, message: str) -> None:
    raise _CLASSES.get(status, MraError)(message)
