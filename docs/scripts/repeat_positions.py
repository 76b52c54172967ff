"""A BERT folder with its learned positions repeated: what it costs on longer texts, not how good it is.      repeat_positions.py FROM TO N"""
import json
import shutil
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

source, target, n = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
config = json.loads((source / "config.json").read_text())
if config.get("model_type") != "bert":
    sys.exit(f"repeat_positions: {source}: {config.get('model_type')} is not bert: its first positions may not count")
tensors = load_file(source / "model.safetensors")
name = next(k for k in tensors if k.endswith("position_embeddings.weight"))
tensors[name] = np.ascontiguousarray(np.tile(tensors[name], (-(-n // len(tensors[name])), 1))[:n])
for key in [k for k in tensors if k.endswith("position_ids")]:
    del tensors[key]
shutil.copytree(source, target, ignore=shutil.ignore_patterns("model.safetensors"))
save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
(target / "config.json").write_text(json.dumps({**config, "max_position_embeddings": n}))
for file, changes in (("sentence_bert_config.json", {"max_seq_length": n}), ("tokenizer_config.json", {"model_max_length": n}),
                      ("tokenizer.json", {"truncation": None, "padding": None})):
    path = target / file
    if path.exists():
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
