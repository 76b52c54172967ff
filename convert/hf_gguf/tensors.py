"""Which tensors go into the file: GGUF name <- checkpoint name, with the shape config.json promises."""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import numpy as np

from .checkpoint import Tensor
from .config import Config
from .errors import ConvertError
from .families import ALWAYS, NEVER, Part, Spelling, dense, norm
from .torch_file import open_torch

OPTIONAL = "optional"            # of biases: as the checkpoint has it
BUFFERS = (".inv_freq", ".position_ids", ".masked_bias", ".attention.self.distance")   # no weights


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
        self.taken: set[str] = set()

    def find(self, source: str) -> Tensor | None:
        # checkpoints ported from TensorFlow call a norm's weight and bias gamma and beta
        old = source.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        # weights with adapters beside them (jina v3) lie one level deeper
        deeper = source.removesuffix(".weight") + ".parametrizations.weight.original"
        for name in (source, old, deeper):
            if name in self.checkpoint:
                self.taken.add(name)
                return self.checkpoint[name]
        return None

    def checked(self, source: str, shape: tuple) -> Tensor:
        tensor = self.find(source)
        if tensor is None:
            raise ConvertError(f"{self.where}: missing tensor {source}")
        if tensor.shape != shape:
            raise ConvertError(f"{self.where}: tensor {source} has shape {list(tensor.shape)}, config.json says {list(shape)}")
        return tensor

    def take(self, name: str, source: str, shape: tuple) -> None:
        self.outputs.append(Output(name, shape, self.checked(source, shape).read))

    def part(self, prefix: str, part: Part, source: str) -> None:
        """Weight and bias of a dense layer, or of a norm; the rows of several layers one after the other."""
        c = self.config
        rows = [getattr(c, n) for n in part.rows]
        tail = () if part.n_in is None else (getattr(c, part.n_in),)
        name = source + part.source
        if part.bias == OPTIONAL:
            biased = self.find(f"{name}.bias") is not None
        else:
            biased = part.bias == ALWAYS or (part.bias != NEVER and getattr(c, part.bias))
        if not biased and self.find(f"{name}.bias"):
            raise ConvertError(f"{self.where}: tensor {name}.bias, where config.json says that there is no bias")
        for kind in ("weight", "bias") if biased else ("weight",):
            shape = tail if kind == "weight" else ()
            tensor = self.checked(f"{name}.{kind}", (sum(rows), *shape))
            first = 0
            for to, n in zip(part.names, rows):
                if part.by_head:
                    load = lambda t=tensor, i=part.names.index(to): t.read().reshape(c.n_head, len(rows), -1, *shape)[:, i].reshape(-1, *shape)
                else:
                    load = tensor.read if len(rows) == 1 else lambda t=tensor, a=first, b=first + n: t.read()[a:b]
                self.outputs.append(Output(f"{prefix}{to}.{kind}", (n, *shape), load))
                first += n

    def refuse_left_over(self, layers: str) -> None:
        """A tensor of the layers that has no place would be left out without a word."""
        for name in sorted(self.checkpoint):
            if name.startswith(layers) and name not in self.taken and not name.endswith(BUFFERS) and ".lora_" not in name:
                raise ConvertError(f"{self.where}: tensor {name} is not part of the {self.config.n_layer} layers of {self.config.architecture}")


def map_tensors(checkpoint: dict[str, Tensor], config: Config, where: str, n_ctx: int, keep_mlm: bool) -> list[Output]:
    """All tensors to write, in file order. n_ctx >= config.n_ctx: learnt positions are tiled up to it."""
    m = Mapper(checkpoint, config, where)
    spelling, prefix = _spelling(m)
    _embeddings(m, spelling, prefix, n_ctx)
    for i in range(config.n_layer):
        for part in spelling.parts:
            if i > 0 or part.first_layer:
                m.part(f"blk.{i}.", part, prefix + spelling.layer.format(i))
    if spelling.out_norm:
        m.part("", norm(spelling.out_norm_name, spelling.out_norm, spelling.norm_bias), prefix)
    m.refuse_left_over(prefix + spelling.layer.split("{}")[0])
    if keep_mlm:
        _mlm_head(m, spelling, prefix)
    if config.head == "classifier":
        _classifier(m, spelling, prefix)
    elif config.head == "tags":
        _tags(m, spelling)
    return m.outputs


def _spelling(m: Mapper) -> tuple:
    """The spelling of the family that the checkpoint has, and what stands before its names: `roberta.`, `model.` or nothing."""
    tails = {s.token for s in m.config.of.spellings}
    found = [(s, name[:-len(s.token)]) for s in m.config.of.spellings for name in m.checkpoint if name == s.token or name.endswith("." + s.token)]
    fits = [(s, p) for s, p in found if any(name.startswith(p + s.layer.format(0) + s.mark) for name in m.checkpoint)] or found[:1]
    if len(fits) != 1 or len({p for _, p in found}) > 1:
        raise ConvertError(f"{m.where}: {'missing tensor' if not found else 'more than one'} {' or '.join(sorted(tails))}")
    return fits[0]


def _embeddings(m: Mapper, spelling: Spelling, prefix: str, n_ctx: int) -> None:
    c = m.config
    m.take("token_embd.weight", prefix + spelling.token, (c.n_vocab, c.n_embd))
    if c.n_types:
        m.take("token_types.weight", prefix + spelling.types, (c.n_types, c.n_embd))
    if c.positions.n_rows:
        table = m.checked(f"{prefix}embeddings.position_embeddings.weight", (c.positions.n_rows, c.n_embd))

        def positions():
            rows = table.read()[c.positions.offset:]
            return np.resize(rows, (n_ctx, c.n_embd))  # repeats the rows from the first one on

        m.outputs.append(Output("position_embd.weight", (n_ctx, c.n_embd), positions))
    if spelling.norm:
        m.part("", norm("token_embd_norm", spelling.norm, spelling.norm_bias), prefix)


def _mlm_head(m: Mapper, spelling: Spelling, prefix: str) -> None:
    c = m.config
    if not spelling.mlm:
        if c.head == "mlm":
            raise ConvertError(f"{m.where}: the masked-language-model head of {c.architecture} is not supported")
        return
    dense_, norm_, bias, decoder = spelling.mlm
    promised = c.head == "mlm" and c.family != "jina-v2"     # whose folders name the class and have no head
    if not promised and not m.find(f"{dense_ or decoder}.weight"):
        return
    if c.head in ("classifier", "tags") and spelling.cls[:1] == spelling.mlm[:1]:
        return  # the classifier's own
    if dense_:
        m.part("", dense("mlm.dense", dense_, "n_embd", "n_embd", OPTIONAL if c.of.arch == "modern-bert" else ALWAYS), "")
        m.part("", norm("mlm.norm", norm_, spelling.norm_bias), "")
    # the decoder's own bias is what is added; where it is tied to the other one it may be left out
    source = bias if c.tied and not m.find(f"{decoder}.bias") else f"{decoder}.bias"
    if m.find(source) or c.of.arch not in ("modern-bert", "eurobert", "neo-bert"):
        m.take("mlm.output.bias", source, (c.n_vocab,))
    if not m.find(f"{decoder}.weight"):
        if not c.tied:
            raise ConvertError(f"{m.where}: missing tensor {decoder}.weight (config.json says it is not tied)")
        return
    own = m.checked(f"{decoder}.weight", (c.n_vocab, c.n_embd))
    shared = m.checked(prefix + spelling.token, (c.n_vocab, c.n_embd))
    if not dense_ or not np.array_equal(own.read(), shared.read()):
        m.outputs.append(Output("mlm.output.weight", own.shape, own.read))


def _classifier(m: Mapper, spelling: Spelling, prefix: str) -> None:
    c = m.config
    if not spelling.cls:
        raise ConvertError(f"{m.where}: the classifier of {c.architecture} is not supported")
    dense_, norm_, out = (name.format(prefix) for name in spelling.cls)
    m.part("", dense("cls", dense_, "n_embd", "n_embd", OPTIONAL if c.of.arch == "modern-bert" else ALWAYS), "")
    if norm_:
        m.part("", norm("cls.norm", norm_, spelling.norm_bias), "")
    m.take("cls.output.weight", f"{out}.weight", (len(c.labels), c.n_embd))
    m.take("cls.output.bias", f"{out}.bias", (len(c.labels),))


def _tags(m: Mapper, spelling: Spelling) -> None:
    """The classifier of tokens: one dense layer in all families, behind ModernBERT's head."""
    c = m.config
    if c.of.arch == "modern-bert":
        dense_, norm_, _ = spelling.cls
        m.part("", dense("tag", dense_, "n_embd", "n_embd", OPTIONAL), "")
        m.part("", norm("tag.norm", norm_, spelling.norm_bias), "")
    m.take("tag.output.weight", "classifier.weight", (len(c.labels), c.n_embd))
    m.take("tag.output.bias", "classifier.bias", (len(c.labels),))


def map_dense(embedding, n_embd: int, where: str) -> list[Output]:
    """Dense layers behind the pooling; each takes what the one before gives."""
    outputs, n_in = [], n_embd
    for i, layer in enumerate(embedding.dense if embedding else ()):
        if layer.weight.shape[1] != n_in:
            raise ConvertError(f"{where}: a Dense module takes {layer.weight.shape[1]} numbers, the one before it gives {n_in}")
        n_in = layer.weight.shape[0]
        for kind, tensor in (("weight", layer.weight), ("bias", layer.bias)):
            if tensor is not None:
                outputs.append(Output(f"dense.{i}.{kind}", tensor.shape, tensor.read))
    return outputs


def map_token_heads(folder: Path, n_embd: int) -> list[Output]:
    """bge-m3's weights and ColBERT vectors of tokens, from files of their own."""
    outputs = []
    for name, file in (("sparse", "sparse_linear.pt"), ("colbert", "colbert_linear.pt")):
        if not (folder / file).is_file():
            continue
        tensors = open_torch(folder / file)
        weight, bias = tensors.get("weight"), tensors.get("bias")
        if len(tensors) != 2 or weight is None or bias is None or len(weight.shape) != 2 or weight.shape[1] != n_embd \
                or bias.shape != weight.shape[:1] or (name == "sparse" and weight.shape[0] != 1):
            raise ConvertError(f"{folder / file}: not the weight and bias of a dense layer of {n_embd} numbers")
        outputs += [Output(f"{name}.{kind}", tensors[kind].shape, tensors[kind].read) for kind in ("weight", "bias")]
    return outputs
