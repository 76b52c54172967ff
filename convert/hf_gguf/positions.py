"""config.json -> how a model knows positions: rows of a table, angles of RoPE per kind of layer, windows."""
from __future__ import annotations

from dataclasses import dataclass, field

from .errors import shown
from .reader import Reader

DEFAULT_BASE = {"modernbert": 160000.0, "nomic-bert": 1000.0, "gte": 160000.0, "jina-v3": 20000.0, "eurobert": 10000.0, "neobert": 10000.0}
LAYER_TYPES = {"full_attention": False, "sliding_attention": True}


@dataclass
class Positions:
    n_rows: int = 0              # rows of the position table in the checkpoint, 0: there is none
    offset: int = 0              # rows before the one of the first token
    n_ctx: int = 0
    rope_base: float = 0.0       # 0: no RoPE
    rope_base_local: float = 0.0  # of layers with a window; 0: there is none
    rope_factor: float = 1.0     # positions are divided by it
    window: int = 0              # tokens of it, half on each side
    local: list = field(default_factory=list)    # whether layer i has a window; empty: none has


def read_positions(r: Reader, family: str, kind: str, n_layer: int, head_size: int) -> Positions:
    n = r.int("max_position_embeddings", "n_positions", "max_length")
    if kind == "learnt":
        return _learnt(r, family, n)
    p = Positions(n_ctx=n)
    if family == "jina-v3":      # counted as XLM-R's, which has rows before the first
        p.n_ctx -= r.int("pad_token_id", default=1, low=0) + 1
    if kind == "rope":
        _rope(r, p, family, head_size)
    if family == "modernbert":
        _windows(r, p, n_layer)
    if p.n_ctx < 1:
        r.fail(f"max_position_embeddings = {n} leaves no position")
    return p


def _learnt(r: Reader, family: str, n: int) -> Positions:
    p = Positions(n, 0)
    if family == "mra":                       # positions are arange + 2 in a table of max_pos + 2 rows
        p = Positions(n + 2, 2)
    elif family not in ("bert", "distilbert"):  # the first token's row is the one behind the padding token's
        p = Positions(n, r.int("pad_token_id", default=1, low=0) + 1)
    if p.n_rows <= p.offset:
        r.fail(f"max_position_embeddings = {n} leaves no position")
    p.n_ctx = p.n_rows - p.offset
    return p


def _rope(r: Reader, p: Positions, family: str, head_size: int) -> None:
    params = r.get("rope_parameters", default={})
    if not isinstance(params, dict):
        r.fail(f"rope_parameters = {shown(params)} is not an object")
    if family == "modernbert":
        p.rope_base, _ = _angles(r, params.get("full_attention") or {}, "global_rope_theta", DEFAULT_BASE[family], head_size)
        p.rope_base_local, _ = _angles(r, params.get("sliding_attention") or {}, "local_rope_theta", 10000.0, head_size)
        return
    scaling = r.get("rope_scaling")
    if scaling is not None and not isinstance(scaling, dict):
        r.fail(f"rope_scaling = {shown(scaling)} is not an object")
    p.rope_base, p.rope_factor = _angles(r, {**params, **(scaling or {})}, "rope_theta", DEFAULT_BASE[family], head_size)
    if family == "nomic-bert" and r.get("rotary_scaling_factor") is not None:  # only beyond what it was trained with
        p.n_ctx = min(p.n_ctx, r.int("max_trained_positions", default=2048))


def _angles(r: Reader, params: dict, key: str, default: float, head_size: int) -> tuple:
    """(base, factor) of angles position/factor * base^(-2c/d)."""
    kind = params.get("rope_type", params.get("type", "default"))
    base = r.positive("rope_theta", params.get("rope_theta", r.get(key, "rotary_emb_base", default=default)))
    if params.get("partial_rotary_factor", r.get("partial_rotary_factor", default=1.0)) != 1.0:
        r.fail(f"partial_rotary_factor {shown(params.get('partial_rotary_factor', r.get('partial_rotary_factor')))} is not supported")
    if kind in ("default", None):
        return base, 1.0
    if kind not in ("linear", "ntk"):
        r.fail(f"RoPE of type {shown(kind)} is not supported")
    factor = r.positive("the factor of RoPE", params.get("factor"))
    return (base, factor) if kind == "linear" else (base * factor, factor ** (2 / head_size))


def _windows(r: Reader, p: Positions, n_layer: int) -> None:
    p.window = r.int("local_attention", default=128)
    types = r.get("layer_types")
    if types is None:
        every = r.int("global_attn_every_n_layers", default=3)
        p.local = [i % every != 0 for i in range(n_layer)]
        return
    if not isinstance(types, list) or len(types) != n_layer or any(t not in LAYER_TYPES for t in types):
        r.fail(f"layer_types = {shown(types)} does not name {n_layer} layers {' or '.join(LAYER_TYPES)}")
    p.local = [LAYER_TYPES[t] for t in types]
