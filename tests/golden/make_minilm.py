#!/usr/bin/env python3
"""Makes minilm.json and granite.json: sentence embeddings of two real models, from transformers in float64.

    python convert/fetch_minilm.py models/all-MiniLM-L6-v2
    python tests/golden/make_minilm.py minilm models/all-MiniLM-L6-v2
    python convert/fetch_granite.py models/granite-embedding-30m-english
    python tests/golden/make_minilm.py granite models/granite-embedding-30m-english

What sentence-transformers does with these folders. all-MiniLM-L6-v2: mean over all tokens, texts cut to 256 tokens.
granite-embedding-30m-english: the first token, 512 tokens. Both are then normalised.
"""
from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
import torch
import transformers
from tokenizers import Tokenizer

MAX_LENGTH = {"minilm": 256, "granite": 512}
TEXTS = [
    "A man is eating food.",
    "Someone is having a meal.",
    "The quick brown fox jumps over the lazy dog.",
    "Quantum computers use superposition and entanglement.",
    "How do I reset my password?",
    "To change your password, open the settings and choose \"Security\".",
    "Berlin ist die Hauptstadt von Deutschland.",
    "Le caf\u00e9 na\u00eff co\u00fbte 3,50 \u20ac \u2014 d\u00e9j\u00e0 vu!",
    "\u6771\u4eac\u306f\u65e5\u672c\u306e\u9996\u90fd\u3067\u3059\u3002",
    "x",
    "def mean(xs):\n    return sum(xs) / len(xs)  # O(n)",
    "Attention is all you need, but not all of it: most of the score matrix is smooth, and its smooth parts can be averaged over blocks "
    "without much loss, while the few sharp parts are computed exactly. A budget says how many blocks are refined, and the error falls as "
    "the budget grows. On long texts this saves most of the work, because the number of sharp places grows slower than the square of the length.",
    "A long text is cut at the limit of the model. " * 40,
]


def main(which: str, folder: str) -> None:
    transformers.utils.logging.disable_progress_bar()
    model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
    tokenizer = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_LENGTH[which])
    cases = []
    with torch.no_grad():
        for text in TEXTS:
            ids = tokenizer.encode(text).ids
            hidden = model(input_ids=torch.tensor([ids])).last_hidden_state[0]
            pooled = hidden[0] if which == "granite" else hidden.mean(0)
            embedding = pooled / pooled.norm()
            cases.append({"text": text, "ids": ids, "embedding": [float(f"{x:.8g}") for x in embedding.tolist()]})
    lines = ",\n".join(map(json.dumps, cases))
    (Path(__file__).resolve().parent / f"{which}.json").write_text(f'{{"model": "{Path(folder).name}", "cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main(*sys.argv[1:])
