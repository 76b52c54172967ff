"""Post-processors: which special tokens are put around one text, and around two."""
from __future__ import annotations

from .errors import ConvertError, shown
from .node import Node
from .vocab import TEXT_A, TEXT_B, Vocab

MAX_TYPE = 32767


def read_post_processor(vocab: Vocab, steps: list) -> None:
    """Without any: the texts one after the other, the second of type 1."""
    vocab.single, vocab.pair = [(TEXT_A, 0)], [(TEXT_A, 0), (TEXT_B, 1)]
    vocab.trim_offsets = False
    templates = 0
    for step in steps:
        kind = step.string("type")
        if kind == "ByteLevel":
            for key in ("add_prefix_space", "use_regex"):
                step.bool(key, True)
            vocab.trim_offsets = step.bool("trim_offsets", True)
        elif kind in ("RobertaProcessing", "BertProcessing", "TemplateProcessing"):
            templates += 1
            {"RobertaProcessing": _roberta, "BertProcessing": _bert, "TemplateProcessing": _template}[kind](vocab, step)
        else:
            raise ConvertError(f"post-processor {kind!r} at {step.path} is not supported")
        step.done()
    if templates > 1:
        raise ConvertError("post_processor: more than one template is not supported")


def _token(vocab: Vocab, step: Node, key: str) -> int:
    """["</s>", 2]"""
    value = step.take(key)
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[1], int) or vocab.pieces.get(value[1]) is None:
        step.refuse(key, value)
    return value[1]


def _roberta(vocab: Vocab, step: Node) -> None:
    sep, cls = _token(vocab, step, "sep"), _token(vocab, step, "cls")
    step.bool("add_prefix_space", True)
    vocab.trim_offsets = step.bool("trim_offsets", True)
    vocab.single = [(cls, 0), (TEXT_A, 0), (sep, 0)]
    vocab.pair = vocab.single + [(sep, 0), (TEXT_B, 0), (sep, 0)]


def _bert(vocab: Vocab, step: Node) -> None:
    sep, cls = _token(vocab, step, "sep"), _token(vocab, step, "cls")
    vocab.single = [(cls, 0), (TEXT_A, 0), (sep, 0)]
    vocab.pair = vocab.single + [(TEXT_B, 1), (sep, 1)]


def _template(vocab: Vocab, step: Node) -> None:
    special = {}
    tokens = step.take("special_tokens")
    for name, value in (tokens if isinstance(tokens, dict) else {}).items():
        entry = Node(value, f"{step.at('special_tokens')}.{name}")
        entry.take("id"), entry.take("tokens")
        special[name] = entry.list("ids")
        if not all(isinstance(i, int) and i in vocab.pieces for i in special[name]):
            entry.refuse("ids", special[name])
        entry.done()
    vocab.single = _parts(step, "single", special)
    vocab.pair = _parts(step, "pair", special)
    if [i for i, _ in vocab.single if i < 0] != [TEXT_A] or sorted(i for i, _ in vocab.pair if i < 0) != [TEXT_B, TEXT_A]:
        raise ConvertError(f"{step.path}: a template that does not have each text once is not supported")
    if max(len(vocab.single), len(vocab.pair)) > 64:
        raise ConvertError(f"{step.path}: a template of more than 64 parts is not supported")


def _parts(step: Node, key: str, special: dict) -> list:
    parts = []
    for part in step.nodes(key):
        kind = next(iter(part.left), "")
        entry = part.node(kind)
        name, type_ = entry.string("id"), entry.int("type_id", 0, MAX_TYPE, 0)
        entry.done()
        part.done()
        if kind == "Sequence" and name in ("A", "B"):
            parts.append((TEXT_A if name == "A" else TEXT_B, type_))
        elif kind == "SpecialToken" and name in special:
            parts += [(i, type_) for i in special[name]]
        else:
            raise ConvertError(f"{part.path} = {kind} {shown(name)} is not supported")
    return parts
