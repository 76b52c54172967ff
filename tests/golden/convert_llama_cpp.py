"""llama.cpp's own converter on a folder: convert_llama_cpp.py SOURCE FOLDER OUT PRE, for make_families.py.

A process of its own, for it brings its own gguf package. It knows tokenizers by a hash of what they give, so it is told the name of the
splits (PRE). config.json is changed to what folders on the hub have.
"""
import json
import sys
from pathlib import Path

source, folder, out, pre = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
sys.path[:0] = [str(source), str(source / "gguf-py")]

import conversion
import gguf
from conversion.base import ModelBase, ModelType, TextModel

TextModel.get_vocab_base_pre = lambda self, tokenizer: pre
config = json.loads((folder / "config.json").read_text())
config["classifier_pooling"] = "mean"  # EuroBERT's "late" stops it, and the model has no classifier
if "norm_eps" in config or "layer_norm_epsilon" in config:
    config.setdefault("layer_norm_eps", config.get("norm_eps", config.get("layer_norm_epsilon")))
if config["model_type"] == "modernbert":
    config["global_attn_every_n_layers"] = 3
if "n_embd" in config:  # it asks transformers, which has other names and 768 where there is none
    config.update(hidden_size=config["n_embd"], num_hidden_layers=config["n_layer"], num_attention_heads=config["n_head"],
                  intermediate_size=config["n_inner"], rope_theta=config["rotary_emb_base"])
if config.get("position_embedding_type") == "rotary":  # jina v3 is an XLM-R with task adapters, which get files of their own
    config["lora_adaptations"] = ["none"]
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["normalizer"].setdefault("precompiled_charsmap", "")
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "clean_up_tokenization_spaces": True}))
(folder / "config.json").write_text(json.dumps(config))
cls = conversion.get_model_class(config["architectures"][0])
cls(folder, gguf.LlamaFileType.MOSTLY_F16, out).write()
for adapter in out.parent.glob(f"lora-*-{out.name}"):
    adapter.unlink()
