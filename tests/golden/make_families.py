#!/usr/bin/env python3
"""Makes families/: a tiny random model of each family of encoders as GGUF, and its hidden states (see families/README.md).

    pip install -r tests/golden/requirements.txt
    python tests/golden/make_families.py [--llama-cpp DIR] [NAME...]

Models are transformers' classes with random weights, run in float64; convert_hf.py converts what they save, under transformers' names
and, where a family has them, under those of its authors' code. DIR is llama.cpp's source, for the files of its own converter (it lies in
the sdist of llama-cpp-python 0.3.36 as vendor/llama.cpp; for jina v3 it needs the packages sentencepiece and protobuf): without it those files
stay as they are.
"""
from __future__ import annotations

import argparse
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "convert"))

import gguf
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from convert_hf import convert
from family_tokenizers import write_family_tokenizer

OUT = HERE / "families"
N_VOCAB = 300
SMALL = dict(vocab_size=N_VOCAB, hidden_size=32, num_attention_heads=2, intermediate_size=64)

# name: class, settings, tokenizer, lengths of the texts
MODELS = {
    "modernbert": ("ModernBert", dict(SMALL, hidden_size=64, intermediate_size=96, num_hidden_layers=4, local_attention=16, max_position_embeddings=256, bos_token_id=0, cls_token_id=0,
                                      eos_token_id=2, sep_token_id=2, pad_token_id=1), "brackets", (1, 8, 9, 10, 18, 64, 65, 150)),
    "modernbert-bias": ("ModernBert", dict(SMALL, num_hidden_layers=3, local_attention=6, max_position_embeddings=128, bos_token_id=0,
                                           cls_token_id=0, eos_token_id=2, sep_token_id=2, pad_token_id=1, attention_bias=True, mlp_bias=True,
                                           norm_bias=True, hidden_activation="silu",
                                           layer_types=["sliding_attention", "full_attention", "sliding_attention"]), "brackets", (4, 70)),
    "nomic": ("NomicBert", dict(SMALL, num_hidden_layers=2, max_position_embeddings=128, pad_token_id=0), "wordpiece", (2, 33, 100)),
    "eurobert": ("EuroBert", dict(SMALL, hidden_size=96, num_attention_heads=4, num_key_value_heads=2, intermediate_size=96, num_hidden_layers=2, max_position_embeddings=128,
                                  rope_parameters={"rope_type": "default", "rope_theta": 250000.0}, bos_token_id=0, eos_token_id=2,
                                  pad_token_id=1, mask_token_id=4), "digits", (1, 20, 90)),
    "jina-v3": ("JinaEmbeddingsV3", dict(SMALL, num_hidden_layers=2, max_position_embeddings=130), "unigram", (3, 65, 100)),
    "gte": ("Gte", dict(SMALL, num_hidden_layers=2, max_position_embeddings=128, type_vocab_size=1, pad_token_id=1,
                        rope_parameters={"rope_type": "linear", "factor": 8 ** (2 / 16), "rope_theta": 160000.0}), "unigram", (1, 40, 99)),
    "distilbert": ("DistilBert", dict(vocab_size=N_VOCAB, dim=32, n_heads=2, n_layers=2, hidden_dim=64, max_position_embeddings=128), "wordpiece",
                   (2, 70)),
    # heads of 26 channels, as TinyBERT has them
    "tinybert": ("Bert", dict(SMALL, hidden_size=52, num_hidden_layers=2, max_position_embeddings=128), "wordpiece", (1, 33, 80)),
}
LLAMA_CPP = {"modernbert": "modern-bert", "nomic": "default", "eurobert": "llama-bpe", "distilbert": "default", "tinybert": "default",
             "jina-v3": "default"}    # tokenizer.ggml.pre


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


# transformers' names -> those of the authors' code; a list: joined in this order
OWN_NAMES = {
    "NomicBert": {"layers.": "encoder.layers.", "embeddings.LayerNorm": "emb_ln", "self_attn.[qkv]_proj": "attn.Wqkv", "self_attn.o_proj": "attn.out_proj",
                  "post_attention_layernorm": "norm1", "post_mlp_layernorm": "norm2", "mlp.up_proj": "mlp.fc11", "mlp.gate_proj": "mlp.fc12",
                  "mlp.down_proj": "mlp.fc2"},
    "JinaEmbeddingsV3": {"layers.": "encoder.layers.", "embeddings.LayerNorm": "emb_ln", "self_attn.[qkv]_proj": "mixer.Wqkv",
                         "self_attn.o_proj": "mixer.out_proj", "post_attention_layernorm": "norm1", "post_mlp_layernorm": "norm2"},
    "Gte": {"layers.": "encoder.layer.", "self_attn.[qkv]_proj": "attention.qkv_proj", "self_attn.o_proj": "attention.o_proj",
            "post_attention_layernorm": "attn_ln", "post_mlp_layernorm": "mlp_ln", "mlp.[up gate]_proj": "mlp.up_gate_proj"},
}
OWN_CONFIG = {
    "NomicBert": dict(n_embd=32, n_layer=2, n_head=2, n_inner=64, n_positions=8192, max_trained_positions=2048, activation_function="swiglu",
                      layer_norm_epsilon=1e-12, rotary_emb_base=1000, rotary_emb_fraction=1.0, rotary_emb_interleaved=False, prenorm=False,
                      rotary_emb_scale_base=None, qkv_proj_bias=False, mlp_fc1_bias=False, mlp_fc2_bias=False, causal=False, hidden_size=None,
                      num_hidden_layers=None, num_attention_heads=None, intermediate_size=None, layer_norm_eps=None, hidden_act=None,
                      rope_parameters=None, max_position_embeddings=None, head_dim=None),
    "JinaEmbeddingsV3": dict(architectures=["XLMRobertaModel"], model_type="xlm-roberta", position_embedding_type="rotary", rotary_emb_base=20000.0,
                             rope_parameters=None),
    "Gte": dict(architectures=["NewModel"], model_type="new", position_embedding_type="rope", rope_theta=20000, pack_qkv=True,
                rope_scaling={"factor": 8.0, "type": "ntk"}, layer_norm_type="layer_norm", logn_attention_scale=False, rope_parameters=None),
}


def own_names(folder: Path, kind: str) -> bool:
    """Renames transformers' tensors as the authors' code has them, in place; False: the family has no such names."""
    if kind not in OWN_NAMES:
        return False
    tensors = load_file(folder / "model.safetensors")
    renamed = {}
    for name, t in tensors.items():
        new = name
        for a, b in OWN_NAMES[kind].items():
            if "[" not in a:
                new = b + new[len(a):] if a == "layers." and new.startswith(a) else new.replace(a, b) if a != "layers." else new
                continue
            before, inside, after = re.fullmatch(r"(.*)\[(.*)\](.*)", a).groups()
            parts = [before + p + after for p in (inside.split() if " " in inside else inside)]
            for p in parts:
                if p in name:
                    new, t = new.replace(p, b), torch.cat([tensors[name.replace(p, q)] for q in parts])
        renamed[new] = t
    save_file(renamed, folder / "model.safetensors", metadata={"format": "pt"})
    config = {**json.loads((folder / "config.json").read_text()), **OWN_CONFIG[kind]}
    (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v is not None or k == "rotary_emb_scale_base"}))
    return True


TEXTS = (
    ("The rain in Spain stays mainly in the plain.", None),
    ("", None),
    ("  two  spaces, a tab\tand digits: 1234567 3.14!\n\n\nNew line \n x", None),
    ("Is this [MASK] or  <mask> here?", None),
    ("I'LL don't we'Re 'tis (word) #tag", None),
    ("na\u00efve cafe\u0301 \u4e2d\u6587 \U0001f600", None),
    ("a question", "and its answer"),
)


def tokenized(folder: Path, typed: bool) -> list:
    """typed: the model has token types; all are 0 otherwise, whatever the tokenizer says"""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    encoded = [(text, pair, tokenizer.encode(text, pair)) for text, pair in TEXTS]
    return [{"text": text, "pair": pair, "ids": e.ids, "types": e.type_ids if typed else [0] * len(e.ids)} for text, pair, e in encoded]


def save_texts(cases: dict) -> None:
    path = OUT / "texts.json"
    known = {**(json.loads(path.read_text()) if path.is_file() else {}), **cases}
    lines = ",\n".join(f'"{name}": [\n' + ",\n".join(map(json.dumps, known[name])) + "]" for name in sorted(known))
    path.write_text("{" + lines + "}\n")


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
        cases = {name: tokenized(folder, kind != "DistilBert")}
        if own_names(folder, kind):
            again = folder / "again.gguf"
            convert(folder, again, "f16", name=f"tiny random {name}")
            difference = other_tensors(OUT / f"{name}.gguf", again)
            assert not difference, f"{name}: the authors' names give another file: {difference}"
        if llama_cpp and name in LLAMA_CPP:
            subprocess.run([sys.executable, "-B", HERE / "convert_llama_cpp.py", llama_cpp, folder, OUT / f"{name}-llama-cpp.gguf", LLAMA_CPP[name]],
                           check=True)
            cases[f"{name}-llama-cpp"] = cases[name]
    save_texts(cases)
    save(name, "lengths", lengths, np.int32)
    save(name, "ids", np.concatenate(texts), np.int32)
    save(name, "hidden", np.concatenate(hidden), np.float32)
    print(f"{name}: hidden states of deviation {np.concatenate(hidden).std():.2f}")


def other_tensors(a: Path, b: Path) -> list:
    """Names of the tensors, and of the keys of positions, that two files do not have alike."""
    def read(path):
        reader = gguf.GGUFReader(path)
        out = {t.name: np.array(t.data) for t in reader.tensors}
        out.update({k: np.float32(f.contents()) for k, f in reader.fields.items() if ".rope." in k and "type" not in k})
        return out
    x, y = read(a), read(b)
    return sorted(k for k in x.keys() | y.keys() if k not in x or k not in y or not np.array_equal(x[k], y[k]))


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
