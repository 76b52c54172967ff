"""The key-value part of the file: llama.cpp's keys for its architectures, and ours under mra. (listed in ../README.md)."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .config import Config
from .errors import ConvertError
from .positions import Positions
from .sentence_transformers import POOLING_TYPES, Embedding
from .vocab import Vocab

RANK = 4
WARP = 32
FILE_TYPES = {"f32": 0, "f16": 1, "q8_0": 7}
GGML_ID_NAMES = {"bos": "bos", "eos": "eos", "unk": "unknown", "sep": "seperator", "pad": "padding", "cls": "cls", "mask": "mask"}
TOKENIZER_VERSION = 1
LARGEST_FLOAT = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class U32:
    value: int


@dataclass(frozen=True)
class F64s:
    values: list


def build_metadata(config: Config, vocab: Vocab, embedding: Embedding | None, name: str, type_: str, n_ctx: int, has_mlm: bool) -> dict:
    """key -> U32, float, bool, str, bytes, or a list of str, int or float."""
    arch = config.of.arch
    meta = {
        "general.architecture": arch,
        "general.type": "model",
        "general.name": name,
        "general.file_type": U32(FILE_TYPES[type_]),
        "general.quantization_version": U32(2),
        f"{arch}.block_count": U32(config.n_layer),
        f"{arch}.context_length": U32(n_ctx),
        f"{arch}.embedding_length": U32(config.n_embd),
        f"{arch}.feed_forward_length": U32(config.n_ff),
        f"{arch}.vocab_size": U32(config.n_vocab),
        f"{arch}.attention.head_count": U32(config.n_head),
        f"{arch}.attention.layer_norm_{'rms_' if arch in ('eurobert', 'neo-bert') else ''}epsilon": config.eps,
        f"{arch}.attention.causal": False,
    }
    if config.n_head_kv != config.n_head:
        meta[f"{arch}.attention.head_count_kv"] = U32(config.n_head_kv)
    _positions(meta, arch, config.positions)
    _own(meta, config, embedding, n_ctx, has_mlm)
    _heads(meta, config, embedding)
    _tokenizer(meta, config, vocab)
    return meta


def _positions(meta: dict, arch: str, p: Positions) -> None:
    if p.rope_base:
        meta[f"{arch}.rope.freq_base"] = p.rope_base
        meta[f"{arch}.rope.scaling.type"] = "none" if p.rope_factor == 1 else "linear"
        if p.rope_factor != 1:
            meta[f"{arch}.rope.scaling.factor"] = p.rope_factor
    if any(p.local):
        meta[f"{arch}.rope.freq_base_swa"] = p.rope_base_local
        meta[f"{arch}.attention.sliding_window"] = U32(p.window)
        every = next((n for n in range(1, len(p.local) + 1) if p.local == [i % n != 0 for i in range(len(p.local))]), 0)
        meta[f"{arch}.attention.sliding_window_pattern"] = U32(every) if every else list(p.local)


def _own(meta: dict, config: Config, embedding: Embedding | None, n_ctx: int, has_mlm: bool) -> None:
    meta["mra.architecture"] = config.architecture
    meta["mra.family"] = config.family
    meta["mra.activation"] = config.activation
    if has_mlm:
        meta["mra.mlm.activation"] = config.mlm_activation
    if n_ctx != config.n_ctx:
        meta["mra.trained_context_length"] = U32(config.n_ctx)
    if embedding:
        if embedding.pooling:
            meta["mra.pooling"] = embedding.pooling
        meta["mra.normalize"] = embedding.normalize
        meta["mra.prompts.names"] = list(embedding.prompts)
        meta["mra.prompts.texts"] = list(embedding.prompts.values())
        if embedding.default_prompt:
            meta["mra.prompts.default"] = embedding.default_prompt
        for i, layer in enumerate(embedding.dense):
            if layer.activation:
                meta[f"mra.dense.{i}.activation"] = layer.activation
        if embedding.max_length and n_ctx == config.n_ctx:  # positions are extended for the sake of longer texts
            meta["mra.max_length"] = U32(min(embedding.max_length, n_ctx))
    for key, value in config.mra.items():
        if key == "max_position_embeddings":
            value = n_ctx  # the budget (max_pos/32)*block_per_row stays block_per_row blocks per row
        meta[f"mra.attention.{key}"] = value if isinstance(value, str) else U32(value)
    if config.mra and config.n_embd // config.n_head < WARP:
        # the authors' kernel pads such heads to 32 channels, and takes the scale from the padded size
        meta["mra.attention.scale"] = WARP ** -0.5


def _heads(meta: dict, config: Config, embedding: Embedding | None) -> None:
    if config.head in ("classifier", "tags"):
        meta[f"{config.of.arch}.classifier.output_labels"] = list(config.labels)
    if config.head == "tags" and config.of.arch == "modern-bert":
        meta["mra.classifier.activation"] = config.classifier_activation
    if config.head == "classifier":
        meta[f"{config.of.arch}.pooling_type"] = U32(RANK)
        if config.classifier_pooling == "late":
            meta["mra.classifier.late"] = True
        elif config.classifier_pooling == "mean":
            meta[f"{config.of.arch}.classifier.pooling_type"] = U32(POOLING_TYPES["mean"])
        meta["mra.classifier.activation"] = config.classifier_activation
        meta["mra.classifier.problem_type"] = config.problem_type
    elif embedding and embedding.pooling in POOLING_TYPES:
        meta[f"{config.of.arch}.pooling_type"] = U32(POOLING_TYPES[embedding.pooling])


def _tokenizer(meta: dict, config: Config, vocab: Vocab) -> None:
    tokens, types = vocab.columns(config.n_vocab)
    meta["tokenizer.ggml.model"] = vocab.model
    meta["tokenizer.ggml.pre"] = "modern-bert" if config.of.arch == "modern-bert" and vocab.pre == "roberta-bpe" else vocab.pre
    meta["tokenizer.ggml.tokens"] = tokens
    meta["tokenizer.ggml.token_type"] = types
    if vocab.merges:
        meta["tokenizer.ggml.merges"] = vocab.merges
    for i, score in vocab.scores.items():
        if not abs(score) <= LARGEST_FLOAT:
            raise ConvertError(f"the score of token {i} is {score}")
    if vocab.scores:
        meta["tokenizer.ggml.scores"] = [float(vocab.scores.get(i, -10000.0)) for i in range(config.n_vocab)]
    if vocab.charsmap:
        meta["tokenizer.ggml.precompiled_charsmap"] = vocab.charsmap
    meta["tokenizer.ggml.token_type_count"] = U32(max(config.n_types, 1))
    for key, i in sorted(vocab.special.items()):
        meta[f"tokenizer.ggml.{GGML_ID_NAMES[key]}_token_id"] = U32(i)
    meta["tokenizer.ggml.add_bos_token"] = True
    meta["tokenizer.ggml.add_eos_token"] = True
    meta["tokenizer.ggml.add_sep_token"] = vocab.double_sep
    if vocab.model == "t5":
        meta["tokenizer.ggml.add_space_prefix"] = any(s in vocab.split for s in ("meta_always", "meta_first", "meta_always_whole", "meta_first_whole"))
        meta["tokenizer.ggml.remove_extra_whitespaces"] = "whitespace" in vocab.split or "spaces" in vocab.normalize
    _settings(meta, config, vocab)


def _settings(meta: dict, config: Config, vocab: Vocab) -> None:
    """All that the runtime needs beyond the vocabulary. Lists that are empty are left out."""
    own = "mra.tokenizer."
    meta[own + "version"] = U32(TOKENIZER_VERSION)
    meta[own + "normalize"] = list(vocab.normalize)
    meta[own + "split"] = list(vocab.split)
    meta[own + "added.ids"] = list(vocab.added)
    meta[own + "added.flags"] = list(vocab.added.values())
    for key, parts in (("single", vocab.single), ("pair", vocab.pair)):
        meta[f"{own}{key}.ids"] = [i for i, _ in parts]
        meta[f"{own}{key}.types"] = [t for _, t in parts]
    if vocab.unknown >= 0:
        meta[own + "unknown_id"] = U32(vocab.unknown)
    if vocab.model == "bert":
        meta[own + "max_word_chars"] = U32(vocab.max_word_chars)
    meta[own + "trim_offsets"] = vocab.trim_offsets
    if vocab.whole_words:
        meta[own + "whole_words"] = True
    if any(np.float32(score) != score for score in vocab.scores.values()):
        meta[own + "scores"] = F64s([float(vocab.scores.get(i, -10000.0)) for i in range(config.n_vocab)])
