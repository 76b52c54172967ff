"""What a program here needs from PyPI, said before an import fails."""
from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def require(program: str, *names: str) -> None:
    """Ends the program with a line that says what to install where one of the packages is missing."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        requirements = Path(__file__).resolve().parents[1] / "requirements.txt"
        print(f"{program}: error: no Python package {', '.join(missing)}: pip install -r {requirements}", file=sys.stderr)
        sys.exit(1)
