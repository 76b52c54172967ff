"""config.json -> Config: which architecture, its sizes, its head; everything that is not supported is refused here."""
from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .errors import ConvertError, shown
from .families import ALIASES, FAMILIES, REFUSED, Family
from .positions import Positions, read_positions
from .reader import Reader

HEADS = {"Model": "none", "ForMaskedLM": "mlm", "ForSequenceClassification": "classifier", "ForTokenClassification": "tags"}
MODEL_TYPES = {family.name: f"{name}Model" for name, family in FAMILIES.items()}
MODEL_TYPES.update({"nomic_bert": "NomicBertModel", "jina_embeddings_v3": "JinaEmbeddingsV3Model"})

# Hugging Face's names -> ours. Its "gelu" is the erf one
ACTIVATIONS = {
    "gelu": "gelu", "gelu_python": "gelu", "relu": "relu", "silu": "silu", "swish": "silu",
    "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh",
}
GATED = {"swiglu": "silu", "geglu": "gelu", "reglu": "relu"}
PROBLEM_TYPES = ("single_label_classification", "multi_label_classification", "regression")


@dataclass
class Config:
    architecture: str          # class name, e.g. RobertaForMaskedLM
    of: Family
    head: str                  # value of HEADS: the head the folder must have
    n_layer: int
    n_embd: int
    n_head: int
    n_head_kv: int
    n_ff: int
    n_vocab: int
    n_types: int               # token types; 0: the model has none
    positions: Positions
    eps: float
    activation: str
    tied: bool                 # config does not forbid sharing the MLM decoder with the embeddings
    attn_bias: bool = True     # whether dense layers and norms have biases, in families where that may differ
    mlp_bias: bool = True
    norm_bias: bool = True
    labels: list = field(default_factory=list)
    problem_type: str = ""
    classifier_activation: str = "tanh"
    classifier_pooling: str = "cls"    # what the classifier sees: cls, mean; late: all tokens, and the mean of the logits counts
    mlm_activation: str = "gelu"
    mra: dict = field(default_factory=dict)

    @property
    def family(self) -> str:
        return self.of.name

    @property
    def n_ctx(self) -> int:
        return self.positions.n_ctx

    @property
    def n_kv(self) -> int:
        return self.n_embd // self.n_head * self.n_head_kv

    @property
    def n_qkv(self) -> int:
        return self.n_embd + 2 * self.n_kv

    @property
    def n_ff_2(self) -> int:
        return 2 * self.n_ff


def read_config(folder: Path) -> Config:
    if not folder.is_dir():
        raise ConvertError(f"{folder}: not a folder")
    r = Reader(folder / "config.json")
    architecture, family, head = _architecture(r)
    _refuse_variants(r, family.name)

    n_embd, n_head = r.int("hidden_size", "dim", "n_embd"), r.int("num_attention_heads", "n_heads", "n_head")
    if n_embd % n_head:
        r.fail(f"hidden_size {n_embd} is not a multiple of num_attention_heads {n_head}")
    head_size, n_layer = n_embd // n_head, r.int("num_hidden_layers", "n_layers", "n_layer")
    if r.int("head_dim", default=head_size) != head_size:
        r.fail(f"head_dim {r.get('head_dim')} is not hidden_size/num_attention_heads = {head_size}")
    n_head_kv = r.int("num_key_value_heads", default=n_head)
    if n_head % n_head_kv:
        r.fail(f"num_attention_heads {n_head} is not a multiple of num_key_value_heads {n_head_kv}")
    n_types = 0 if family.name in ("distilbert", "modernbert", "eurobert", "neobert") else r.int(
        "type_vocab_size", default=2 if family.name in ("bert", "nomic-bert", "jina-v2") else 1, low=0)
    config = Config(
        architecture, family, head, n_layer, n_embd, n_head, n_head_kv, _n_ff(r, family.name),
        r.int("vocab_size"), n_types, read_positions(r, family.name, family.position, n_layer, head_size), _eps(r, family.name),
        _activation(r, family), r.get("tie_word_embeddings", default=family.name != "eurobert") is not False)
    if family.name in ("modernbert", "eurobert"):
        config.attn_bias, config.mlp_bias = r.get("attention_bias") is True, r.get("mlp_bias") is True
        config.norm_bias = r.get("norm_bias") is True
    _head_activations(r, config)
    if head in ("classifier", "tags"):
        config.labels = _labels(r)
    if head == "classifier":
        config.classifier_pooling = _classifier_pooling(r, family.name)
        config.problem_type = _problem_type(r, len(config.labels))
    if family.name == "mra":
        config.mra = _mra_settings(r, r.int("max_position_embeddings"))
    return config


def _n_ff(r: Reader, family: str) -> int:
    n = r.int("intermediate_size", "hidden_dim", "n_inner")
    return (2 * n // 3 + 7) // 8 * 8 if family == "neobert" else n    # it says what a layer without gate would have


def _classifier_pooling(r: Reader, family: str) -> str:
    known = {"modernbert": ("cls", "mean"), "eurobert": ("late", "bos", "mean")}.get(family)
    if known is None:
        return "cls"
    pooling = r.get("classifier_pooling", default=known[0])
    if pooling not in known:
        r.fail(f"classifier_pooling {shown(pooling)} is not supported")
    return "cls" if pooling == "bos" else pooling


def _eps(r: Reader, family: str) -> float:
    default = 1e-6 if family == "neobert" else 1e-5 if family in ("mra", "modernbert", "eurobert", "jina-v3") else 1e-12
    eps = default if family == "distilbert" else r.get("layer_norm_eps", "norm_eps", "rms_norm_eps", "layer_norm_epsilon", default=default)
    if isinstance(eps, bool) or not isinstance(eps, (int, float)) or not 0 <= eps < 1:
        r.fail(f"layer_norm_eps = {eps!r}")
    return float(eps)


def _activation(r: Reader, family: Family) -> str:
    default = "silu" if family.name in ("nomic-bert", "eurobert", "neobert") else "gelu"
    name = str(r.get("hidden_act", "hidden_activation", "activation", "activation_function", default=default))
    if family.gated:
        name = GATED.get(name.lower(), name)
    if name not in ACTIVATIONS:
        r.fail(f"hidden_act {name!r} is not supported")
    return ACTIVATIONS[name]


def _head_activations(r: Reader, config: Config) -> None:
    name = config.family
    if name in ("bert", "mra", "nomic-bert", "gte", "jina-v2", "distilbert"):
        config.mlm_activation = config.activation
    if name == "mra":
        config.classifier_activation = config.activation
    elif name == "distilbert":
        config.classifier_activation = "relu"
    elif name == "eurobert":
        config.classifier_activation = "gelu"
    elif name == "modernbert":
        act = ACTIVATIONS.get(str(r.get("classifier_activation", default="gelu")))
        if act is None:
            r.fail(f"classifier_activation {shown(r.get('classifier_activation'))} is not supported")
        config.classifier_activation = config.mlm_activation = act


def _architecture(r: Reader) -> tuple:
    names = r.values.get("architectures") or []
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        r.fail("architectures is not a list of names")
    if not names:
        model_type = str(r.values.get("model_type"))
        if model_type not in MODEL_TYPES:
            r.fail(f"no architectures, and model_type {model_type!r} is not supported")
        names = [MODEL_TYPES[model_type]]
    names = [ALIASES.get(name, name) for name in names]
    for suffix, head in HEADS.items():
        for prefix, family in FAMILIES.items():
            if names[0] == prefix + suffix:
                if prefix == "XLMRoberta" and r.get("position_embedding_type") == "rotary":  # jina v3 beside code of its own
                    family = FAMILIES["JinaEmbeddingsV3"]
                return names[0], family, head
        for prefix, why in REFUSED.items():
            if names[0] == prefix + suffix:
                r.fail(f"{names[0]} is not supported: {why}")
    if names[0] == "BertForPreTraining":      # the next-sentence head is left out
        return names[0], FAMILIES["Bert"], "mlm"
    r.fail(f"unsupported architecture {names[0]} (supported: {', '.join(FAMILIES)} + {', '.join(HEADS)})")


POSITION_TYPES = {"jina-v3": ("rotary",), "gte": ("rope",), "jina-v2": ("alibi",)}
# settings of the authors' own code that mean other formulas; a key that is absent is fine
VARIANTS = {
    "nomic-bert": {"qkv_proj_bias": (False,), "mlp_fc1_bias": (False,), "mlp_fc2_bias": (False,), "prenorm": (False,), "use_rms_norm": (False,),
                   "causal": (False,), "rotary_emb_fraction": (1.0,), "rotary_emb_interleaved": (False,), "moe_every_n_layers": (0,)},
    "gte": {"layer_norm_type": ("layer_norm",), "logn_attention_scale": (False,), "pack_qkv": (True,)},
    "jina-v2": {"feed_forward_type": ("geglu",)},
    "distilbert": {"sinusoidal_pos_embds": (True, False)},   # stored as a table all the same
}


def _refuse_variants(r: Reader, family: str) -> None:
    r.only("position_embedding_type", "absolute", *POSITION_TYPES.get(family, ()))
    for key, allowed in VARIANTS.get(family, {}).items():
        r.only(key, *allowed)
    for key in ("is_decoder", "add_cross_attention"):
        if r.values.get(key):
            r.fail(f"{key} is not supported: this is for encoders")


def _labels(r: Reader) -> list:
    id2label = r.values.get("id2label")
    if id2label is None:
        return [f"LABEL_{i}" for i in range(r.int("num_labels", default=2))]
    try:
        labels = {int(i): str(label) for i, label in id2label.items()}
    except (AttributeError, TypeError, ValueError):
        r.fail("id2label does not map numbers to names")
    if not labels or sorted(labels) != list(range(len(labels))):
        r.fail(f"id2label does not number its labels from 0 on: {shown(sorted(labels))}")
    return [labels[i] for i in range(len(labels))]


def _problem_type(r: Reader, n_labels: int) -> str:
    """As transformers' pipeline: one label is a sigmoid unless it is said to be a regression."""
    problem = r.values.get("problem_type") or "single_label_classification"
    if problem not in PROBLEM_TYPES:
        r.fail(f"problem_type {shown(problem)} is not supported")
    return "multi_label_classification" if n_labels == 1 and problem != "regression" else problem


def _mra_settings(r: Reader, max_pos: int) -> dict:
    mode = r.values.get("approx_mode", "full")
    if mode not in ("full", "sparse"):
        r.fail(f"approx_mode {mode!r} is neither full nor sparse")
    return {
        "block_per_row": r.int("block_per_row", default=4),
        "approx_mode": mode,
        "initial_prior_first_n_blocks": r.int("initial_prior_first_n_blocks", default=0, low=0),
        "initial_prior_diagonal_n_blocks": r.int("initial_prior_diagonal_n_blocks", default=0, low=0),
        "max_position_embeddings": max_pos,
    }
