#!/usr/bin/env python3
"""NAME.in -> NAME.txt: every package that pip would install, with the SHA-256 of its wheel, for each version of Python and
each machine below. With hashes in a file pip installs nothing else.

    python convert/pin_requirements.py [NAME.in...]      asks the package index; look at `git diff` afterwards. NAME.in: requirements.in, here
"""
from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pip._vendor.packaging.requirements import Requirement

PYTHONS = ("3.10", "3.11", "3.12", "3.13")
MACHINES = ("x86_64", "aarch64")
HERE = Path(__file__).resolve().parent


def lines_of(path: Path) -> list:
    """Its lines and those of files it names with -r."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return [x for line in lines for x in (lines_of(path.parent / line[3:]) if line.startswith("-r ") else [line])]


def wanted(path: Path, python: str) -> list:
    """Lines of a file for that version: pip would look at its own."""
    parsed = [Requirement(line) for line in lines_of(path)]
    return [f"{r.name}{r.specifier}" for r in parsed if not r.marker or r.marker.evaluate({"python_version": python})]


def resolve(of: Path, python: str, machine: str, pins: list) -> list:
    """(name, version, sha256) of all that pip would install there."""
    platforms = [f"manylinux{tag}_{machine}" for tag in ("_2_28", "_2_27", "_2_17", "2014")]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--dry-run", "--ignore-installed", "--only-binary=:all:",
                   "--target", folder, "--python-version", python, "--implementation", "cp", *[a for p in platforms for a in ("--platform", p)],
                   "--report", str(report), *wanted(of, python), *pins]
        subprocess.run(command, check=True, env={**os.environ, "PIP_FIND_LINKS": ""})  # of the index, not of a folder of this machine
        items = json.loads(report.read_text())["install"]
    return [(i["metadata"]["name"].lower(), i["metadata"]["version"], i["download_info"]["archive_info"]["hashes"]["sha256"]) for i in items]


def pin(path: Path) -> None:
    found: dict = {}  # name -> version -> (pythons, hashes)
    pythons_of = [python for python in PYTHONS if wanted(path, python)]  # a file may be for newer ones only
    for python in pythons_of:
        pins: list = []  # both machines get the same versions
        for machine in MACHINES:
            for name, version, sha256 in resolve(path, python, machine, pins):
                pythons, hashes = found.setdefault(name, {}).setdefault(version, (set(), set()))
                pythons.add(python)
                hashes.add(sha256)
            pins = pins or [f"{n}=={v}" for n, versions in found.items() for v, (p, _) in versions.items() if python in p]
    lines = [f"# made by pin_requirements.py of {path.name}: Python " + ", ".join(pythons_of) + " on Linux, " + " and ".join(MACHINES)]
    for name in sorted(found):
        for version, (pythons, hashes) in sorted(found[name].items()):
            marker = "" if len(found[name]) == 1 else " ; " + " or ".join(f'python_version == "{p}"' for p in PYTHONS if p in pythons)
            lines.append(" \\\n    ".join([f"{name}=={version}{marker}", *[f"--hash=sha256:{h}" for h in sorted(hashes)]]))
    path.with_suffix(".txt").write_text("\n".join(lines) + "\n")


def main() -> None:
    for path in [Path(a) for a in sys.argv[1:]] or [HERE / "requirements.in"]:
        pin(path)


if __name__ == "__main__":
    main()
