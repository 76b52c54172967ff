#!/usr/bin/env python3
"""Makes families/: a tiny random model of each family of encoders as GGUF, and its hidden states (see families/README.md).

    pip install -r tests/golden/requirements.txt
    python tests/golden/make_families.py [--llama-cpp DIR] [NAME...]

Models are transformers' classes with random weights, run in float64; convert_hf.py converts what they save, under transformers' names
and, where a family has them, under those of its authors' code. DIR is llama.cpp's source, for the files of its own converter (it lies in
the sdist of llama-cpp-python 0.3.36 as vendor/llama.cpp): without it those files stay as they are.
"""
from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "convert"))

import torch
import transformers
from safetensors.torch import load_file, save_file

from convert_hf import convert
from family_tokenizers import write_family_tokenizer

OUT = HERE / "families"
N_VOCAB = 300
SMALL = dict(vocab_size=N_VOCAB, hidden_size=64, num_attention_heads=2, intermediate_size=96)

# name: class, settings, tokenizer, lengths of the texts
MODELS = {
    "modernbert": ("ModernBert", dict(SMALL, num_hidden_layers=4, local_attention=16, max_position_embeddings=256, bos_token_id=0, cls_token_id=0,
                                      eos_token_id=2, sep_token_id=2, pad_token_id=1), "brackets", (1, 8, 9, 10, 18, 64, 65, 150)),
    "modernbert-bias": ("ModernBert", dict(SMALL, num_hidden_layers=3, local_attention=6, max_position_embeddings=128, bos_token_id=0,
                                           cls_token_id=0, eos_token_id=2, sep_token_id=2, pad_token_id=1, attention_bias=True, mlp_bias=True,
                                           norm_bias=True, hidden_activation="silu",
                                           layer_types=["sliding_attention", "full_attention", "sliding_attention"]), "brackets", (4, 70)),
    "nomic": ("NomicBert", dict(SMALL, num_hidden_layers=2, max_position_embeddings=128, pad_token_id=0), "wordpiece", (2, 33, 100)),
    "eurobert": ("EuroBert", dict(SMALL, hidden_size=96, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=2, max_position_embeddings=128,
                                  rope_parameters={"rope_type": "default", "rope_theta": 250000.0}, bos_token_id=0, eos_token_id=2,
                                  pad_token_id=1, mask_token_id=4), "digits", (1, 20, 90)),
}
LLAMA_CPP = {"modernbert": "modern-bert", "nomic": "default", "eurobert": "llama-bpe"}    # tokenizer.ggml.pre


def randomise(model, rng) -> None:
    """Weights of a spread that makes attention choose and norms matter; numbers that F16 holds."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            values = rng.standard_normal(tuple(p.shape))
            if p.dim() == 1:
                values = 1 + 0.1 * values if name.endswith("weight") else 0.1 * values
            elif "embed" in name:
                values = 0.5 * values
            else:
                values = values * 1.3 / np.sqrt(p.shape[1])
            p.copy_(torch.tensor(values.astype(np.float16).astype(np.float32)))


def make_folder(folder: Path, kind: str, settings: dict, tokenizer: str, seed: int) -> None:
    config = getattr(transformers, kind + "Config")(**settings)
    model = getattr(transformers, kind + "Model")(config).eval()
    randomise(model, np.random.default_rng(seed))
    model.half().save_pretrained(folder)
    write_family_tokenizer(folder, tokenizer, N_VOCAB)


def hidden_states(folder: Path, kind: str, texts: list) -> list:
    cls = getattr(transformers, kind + "Model")
    model = cls.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
    with torch.no_grad():
        return [model(input_ids=torch.tensor(ids)[None]).last_hidden_state[0].numpy() for ids in texts]


def own_names(folder: Path, kind: str) -> None:
    """Renames transformers' tensors as the authors' code has them, in place."""
    if kind != "NomicBert":
        return
    tensors = load_file(folder / "model.safetensors")
    renamed = {}
    names = {"self_attn.o_proj": "attn.out_proj", "post_attention_layernorm": "norm1", "post_mlp_layernorm": "norm2", "mlp.up_proj": "mlp.fc11",
             "mlp.gate_proj": "mlp.fc12", "mlp.down_proj": "mlp.fc2"}
    for name, t in tensors.items():
        if "self_attn.q_proj" in name:
            parts = [tensors[name.replace("q_proj", f"{c}_proj")] for c in "qkv"]
            renamed["encoder." + name.replace("self_attn.q_proj", "attn.Wqkv")] = torch.cat(parts)
        elif "k_proj" not in name and "v_proj" not in name:
            new = name.replace("embeddings.LayerNorm", "emb_ln")
            for a, b in names.items():
                new = new.replace(a, b)
            renamed["encoder." * new.startswith("layers.") + new] = t
    save_file(renamed, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config.update(n_embd=config.pop("hidden_size"), n_layer=config.pop("num_hidden_layers"), n_head=config.pop("num_attention_heads"),
                  n_inner=config.pop("intermediate_size"), n_positions=8192, max_trained_positions=2048, activation_function="swiglu",
                  layer_norm_epsilon=config.pop("layer_norm_eps"), rotary_emb_base=1000, rotary_emb_fraction=1.0, rotary_emb_interleaved=False,
                  rotary_emb_scale_base=None, prenorm=False, qkv_proj_bias=False, mlp_fc1_bias=False, mlp_fc2_bias=False, causal=False)
    for key in ("hidden_act", "rope_parameters", "max_position_embeddings", "head_dim"):
        config.pop(key, None)
    (folder / "config.json").write_text(json.dumps(config))


def save(name: str, what: str, values, dtype) -> None:
    np.save(OUT / f"{name}.{what}.npy", np.ascontiguousarray(values, dtype))


def make(name: str, llama_cpp: Path | None) -> None:
    kind, settings, tokenizer, lengths = MODELS[name]
    seed = sum(map(ord, name))
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / name
        make_folder(folder, kind, settings, tokenizer, seed)
        convert(folder, OUT / f"{name}.gguf", "f16", name=f"tiny random {name}")
        texts = [rng.integers(5, N_VOCAB - 1, n) for n in lengths]
        hidden = hidden_states(folder, kind, texts)
        own_names(folder, kind)
        again = OUT / f"{name}.again.gguf"
        convert(folder, again, "f16", name=f"tiny random {name}")
        same = same_tensors(OUT / f"{name}.gguf", again)
        again.unlink()
        assert same, f"{name}: the authors' names give another file"
        if llama_cpp and name in LLAMA_CPP:
            subprocess.run([sys.executable, "-B", HERE / "convert_llama_cpp.py", llama_cpp, folder, OUT / f"{name}-llama-cpp.gguf", LLAMA_CPP[name]],
                           check=True)
    save(name, "lengths", lengths, np.int32)
    save(name, "ids", np.concatenate(texts), np.int32)
    save(name, "hidden", np.concatenate(hidden), np.float32)
    print(f"{name}: hidden states of deviation {np.concatenate(hidden).std():.2f}")


def same_tensors(a: Path, b: Path) -> bool:
    import gguf
    read = lambda path: {t.name: np.array(t.data) for t in gguf.GGUFReader(path).tensors}
    x, y = read(a), read(b)
    return x.keys() == y.keys() and all(np.array_equal(x[k], y[k]) for k in x)


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--llama-cpp", type=Path)
    p.add_argument("names", nargs="*", default=list(MODELS))
    args = p.parse_args()
    OUT.mkdir(exist_ok=True)
    logging.disable(logging.WARNING)
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    for name in args.names:
        make(name, args.llama_cpp)


if __name__ == "__main__":
    main()
