"""Which tensors go into the file: GGUF name <- checkpoint name, with the shape config.json promises."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

import numpy as np

from .checkpoint import Tensor
from .config import Config
from .errors import ConvertError

LAYER = (
    # GGUF, checkpoint, output size, input size
    ("attn_q", "attention.self.query", "n_embd", "n_embd"),
    ("attn_k", "attention.self.key", "n_embd", "n_embd"),
    ("attn_v", "attention.self.value", "n_embd", "n_embd"),
    ("attn_output", "attention.output.dense", "n_embd", "n_embd"),
    ("attn_output_norm", "attention.output.LayerNorm", "n_embd", None),
    ("ffn_up", "intermediate.dense", "n_ff", "n_embd"),
    ("ffn_down", "output.dense", "n_embd", "n_ff"),
    ("layer_output_norm", "output.LayerNorm", "n_embd", None),
)


@dataclass
class Output:
    name: str
    shape: tuple                     # as numpy has it, slowest first
    load: Callable[[], np.ndarray]   # float32


class Mapper:
    """Collects outputs from a checkpoint; every tensor it takes is checked for presence and shape."""

    def __init__(self, checkpoint: dict[str, Tensor], config: Config, where: str):
        self.checkpoint, self.config, self.where = checkpoint, config, where
        self.outputs: list[Output] = []

    def find(self, source: str) -> Tensor | None:
        # checkpoints ported from TensorFlow call a norm's weight and bias gamma and beta
        old = source.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        return self.checkpoint.get(source) or self.checkpoint.get(old)

    def checked(self, source: str, shape: tuple) -> Tensor:
        tensor = self.find(source)
        if tensor is None:
            raise ConvertError(f"{self.where}: missing tensor {source}")
        if tensor.shape != shape:
            raise ConvertError(f"{self.where}: tensor {source} has shape {list(tensor.shape)}, config.json says {list(shape)}")
        return tensor

    def take(self, name: str, source: str, shape: tuple) -> None:
        self.outputs.append(Output(name, shape, self.checked(source, shape).read))

    def pair(self, name: str, source: str, n_out: int, n_in: int | None) -> None:
        """Weight and bias of a dense layer, or of a norm (n_in None)."""
        self.take(f"{name}.weight", f"{source}.weight", (n_out,) if n_in is None else (n_out, n_in))
        self.take(f"{name}.bias", f"{source}.bias", (n_out,))


def map_tensors(checkpoint: dict[str, Tensor], config: Config, where: str, n_ctx: int, keep_mlm: bool) -> list[Output]:
    """All tensors to write, in file order. n_ctx >= config.n_ctx: positions are tiled up to it."""
    m = Mapper(checkpoint, config, where)
    prefix = _prefix(m)
    _embeddings(m, prefix + "embeddings.", n_ctx)
    for i in range(config.n_layer):
        for name, source, n_out, n_in in LAYER:
            m.pair(f"blk.{i}.{name}", f"{prefix}encoder.layer.{i}.{source}", getattr(config, n_out), n_in and getattr(config, n_in))
    extra = f"{prefix}encoder.layer.{config.n_layer}.output.dense.weight"
    if extra in checkpoint:
        raise ConvertError(f"{where}: more layers than the {config.n_layer} of config.json: {extra}")
    if keep_mlm:
        _mlm_head(m, prefix)
    if config.head == "classifier":
        _classifier(m, prefix)
    return m.outputs


def _prefix(m: Mapper) -> str:
    """`roberta.`, `bert.`, `mra.` or nothing: whatever stands before the word embeddings."""
    tail = "embeddings.word_embeddings.weight"
    found = [name[:-len(tail)] for name in m.checkpoint if name == tail or name.endswith("." + tail)]
    if len(found) != 1:
        raise ConvertError(f"{m.where}: {'missing tensor' if not found else 'more than one'} {tail}")
    return found[0]


def _embeddings(m: Mapper, prefix: str, n_ctx: int) -> None:
    c = m.config
    m.take("token_embd.weight", f"{prefix}word_embeddings.weight", (c.n_vocab, c.n_embd))
    if c.n_types:
        m.take("token_types.weight", f"{prefix}token_type_embeddings.weight", (c.n_types, c.n_embd))
    table = m.checked(f"{prefix}position_embeddings.weight", (c.n_pos_rows, c.n_embd))

    def positions():
        rows = table.read()[c.pos_offset:]
        return np.resize(rows, (n_ctx, c.n_embd))  # repeats the rows from the first one on

    m.outputs.append(Output("position_embd.weight", (n_ctx, c.n_embd), positions))
    m.pair("token_embd_norm", f"{prefix}LayerNorm", c.n_embd, None)


def _mlm_head(m: Mapper, prefix: str) -> None:
    c = m.config
    if c.family in ("bert", "mra"):
        dense, norm, bias, decoder = ("cls.predictions." + x for x in ("transform.dense", "transform.LayerNorm", "bias", "decoder"))
    else:
        dense, norm, bias, decoder = ("lm_head." + x for x in ("dense", "layer_norm", "bias", "decoder"))
    if c.head != "mlm" and f"{dense}.weight" not in m.checkpoint:
        return
    m.pair("mlm.dense", dense, c.n_embd, c.n_embd)
    m.pair("mlm.norm", norm, c.n_embd, None)
    # the decoder's own bias is what is added; where it is tied to the other one it may be left out
    m.take("mlm.output.bias", bias if c.tied and not m.find(f"{decoder}.bias") else f"{decoder}.bias", (c.n_vocab,))
    if not m.find(f"{decoder}.weight"):
        if not c.tied:
            raise ConvertError(f"{m.where}: missing tensor {decoder}.weight (config.json says it is not tied)")
        return
    own = m.checked(f"{decoder}.weight", (c.n_vocab, c.n_embd))
    shared = m.checked(f"{prefix}embeddings.word_embeddings.weight", (c.n_vocab, c.n_embd))
    if not np.array_equal(own.read(), shared.read()):
        m.outputs.append(Output("mlm.output.weight", own.shape, own.read))


def _classifier(m: Mapper, prefix: str) -> None:
    c = m.config
    n_labels = len(c.labels)
    if c.family == "bert":  # BERT's pooler is what RoBERTa calls classifier.dense: the same formula, so the same name
        m.pair("cls", f"{prefix}pooler.dense", c.n_embd, c.n_embd)
        m.pair("cls.output", "classifier", n_labels, c.n_embd)
    else:
        m.pair("cls", "classifier.dense", c.n_embd, c.n_embd)
        m.pair("cls.output", "classifier.out_proj", n_labels, c.n_embd)
