"""config.json -> Config: which architecture, its sizes, its head; everything that is not supported is refused here."""
from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .errors import ConvertError, read_json, shown

FAMILIES = {"Roberta": "roberta", "XLMRoberta": "xlm-roberta", "Camembert": "camembert", "Bert": "bert", "Mra": "mra"}
HEADS = {"Model": "none", "ForMaskedLM": "mlm", "ForSequenceClassification": "classifier"}
MODEL_TYPES = {family: f"{name}Model" for name, family in FAMILIES.items()}

# Hugging Face's names -> ours. Its "gelu" is the erf one
ACTIVATIONS = {
    "gelu": "gelu", "gelu_python": "gelu", "relu": "relu", "silu": "silu", "swish": "silu",
    "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh",
}
PROBLEM_TYPES = ("single_label_classification", "multi_label_classification", "regression")


@dataclass
class Config:
    architecture: str          # class name, e.g. RobertaForMaskedLM
    family: str                # value of FAMILIES
    head: str                  # value of HEADS: the head the folder must have
    n_layer: int
    n_embd: int
    n_head: int
    n_ff: int
    n_vocab: int
    n_types: int               # token types; 0: the model has none
    n_pos_rows: int            # rows of the position table in the checkpoint
    pos_offset: int            # rows before the one of the first token
    eps: float
    activation: str
    tied: bool                 # config does not forbid sharing the MLM decoder with the embeddings
    labels: list = field(default_factory=list)
    problem_type: str = ""
    mra: dict = field(default_factory=dict)

    @property
    def n_ctx(self) -> int:
        return self.n_pos_rows - self.pos_offset

    @property
    def classifier_activation(self) -> str:
        return self.activation if self.family == "mra" else "tanh"

    @property
    def mlm_activation(self) -> str:
        return self.activation if self.family in ("bert", "mra") else "gelu"


class _Reader:
    """Typed access to config.json; says which key of which file is wrong."""

    def __init__(self, path: Path):
        self.path, self.values = path, read_json(path)

    def int(self, key: str, default=None, low: int = 1) -> int:
        value = self.values.get(key, default)
        if value is None:
            raise ConvertError(f"{self.path}: no {key}")
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value < 2**31:
            raise ConvertError(f"{self.path}: {key} = {shown(value)} is not a number from {low} on")
        return value

    def fail(self, message: str):
        raise ConvertError(f"{self.path}: {message}")


def read_config(folder: Path) -> Config:
    if not folder.is_dir():
        raise ConvertError(f"{folder}: not a folder")
    r = _Reader(folder / "config.json")
    architecture, family, head = _architecture(r)
    _refuse_variants(r)

    n_embd, n_head = r.int("hidden_size"), r.int("num_attention_heads")
    if n_embd % n_head:
        r.fail(f"hidden_size {n_embd} is not a multiple of num_attention_heads {n_head}")
    max_pos = r.int("max_position_embeddings")
    if family == "mra":                       # positions are arange + 2 in a table of max_pos + 2 rows
        n_pos_rows, pos_offset = max_pos + 2, 2
    elif family == "bert":
        n_pos_rows, pos_offset = max_pos, 0
    else:                                     # the first token's row is the one behind the padding token's
        n_pos_rows, pos_offset = max_pos, r.int("pad_token_id", 1, low=0) + 1
    if n_pos_rows <= pos_offset:
        r.fail(f"max_position_embeddings = {max_pos} leaves no position")

    eps = r.values.get("layer_norm_eps", 1e-5 if family == "mra" else 1e-12)
    if isinstance(eps, bool) or not isinstance(eps, (int, float)) or not 0 <= eps < 1:
        r.fail(f"layer_norm_eps = {eps!r}")
    activation = ACTIVATIONS.get(str(r.values.get("hidden_act", "gelu")))
    if activation is None:
        r.fail(f"hidden_act {r.values['hidden_act']!r} is not supported")

    config = Config(
        architecture, family, head, r.int("num_hidden_layers"), n_embd, n_head, r.int("intermediate_size"), r.int("vocab_size"),
        r.int("type_vocab_size", 2 if family == "bert" else 1, low=0), n_pos_rows, pos_offset, float(eps), activation,
        r.values.get("tie_word_embeddings", True) is not False)
    if head == "classifier":
        config.labels = _labels(r)
        config.problem_type = _problem_type(r, len(config.labels))
    if family == "mra":
        config.mra = _mra_settings(r, max_pos)
    return config


def _architecture(r: _Reader) -> tuple:
    names = r.values.get("architectures") or []
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        r.fail("architectures is not a list of names")
    if not names:
        model_type = str(r.values.get("model_type"))
        if model_type not in MODEL_TYPES:
            r.fail(f"no architectures, and model_type {model_type!r} is not supported")
        names = [MODEL_TYPES[model_type]]
    for suffix, head in HEADS.items():
        for prefix, family in FAMILIES.items():
            if names[0] == prefix + suffix:
                return names[0], family, head
    if names[0] == "BertForPreTraining":      # the next-sentence head is left out
        return names[0], "bert", "mlm"
    r.fail(f"unsupported architecture {names[0]} (supported: {', '.join(FAMILIES)} + {', '.join(HEADS)})")


def _refuse_variants(r: _Reader) -> None:
    kind = r.values.get("position_embedding_type") or "absolute"
    if kind != "absolute":
        r.fail(f"position_embedding_type {kind!r} is not supported")
    for key in ("is_decoder", "add_cross_attention"):
        if r.values.get(key):
            r.fail(f"{key} is not supported: this is for encoders")


def _labels(r: _Reader) -> list:
    id2label = r.values.get("id2label")
    if id2label is None:
        return [f"LABEL_{i}" for i in range(r.int("num_labels", 2))]
    try:
        labels = {int(i): str(label) for i, label in id2label.items()}
    except (AttributeError, TypeError, ValueError):
        r.fail("id2label does not map numbers to names")
    if not labels or sorted(labels) != list(range(len(labels))):
        r.fail(f"id2label does not number its labels from 0 on: {shown(sorted(labels))}")
    return [labels[i] for i in range(len(labels))]


def _problem_type(r: _Reader, n_labels: int) -> str:
    """As transformers' pipeline: one label is a sigmoid unless it is said to be a regression."""
    problem = r.values.get("problem_type") or "single_label_classification"
    if problem not in PROBLEM_TYPES:
        r.fail(f"problem_type {shown(problem)} is not supported")
    return "multi_label_classification" if n_labels == 1 and problem != "regression" else problem


def _mra_settings(r: _Reader, max_pos: int) -> dict:
    mode = r.values.get("approx_mode", "full")
    if mode not in ("full", "sparse"):
        r.fail(f"approx_mode {mode!r} is neither full nor sparse")
    return {
        "block_per_row": r.int("block_per_row", 4),
        "approx_mode": mode,
        "initial_prior_first_n_blocks": r.int("initial_prior_first_n_blocks", 0, low=0),
        "initial_prior_diagonal_n_blocks": r.int("initial_prior_diagonal_n_blocks", 0, low=0),
        "max_position_embeddings": max_pos,
    }
