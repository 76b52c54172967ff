"""A loaded model, its contexts, and texts through it; what Encoder, CrossEncoder, Classifier and FillMask share."""
from __future__ import annotations

import ctypes as c
import os
import sys
import threading
import warnings
from dataclasses import dataclass, field
from typing import Callable, Iterable, Iterator, Sequence

import numpy as np

from . import _library as l
from ._errors import ArgumentError, FormatError, MraError, TooLongError

ATTENTION = {"auto": 0, "exact": 1, "mra": 2}
ATTENTION_TYPE = {"auto": 0, "float": 1, "int8": 2}


def text_of(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


def choice(name: str, value: str, choices: Iterable[str]) -> str:
    if value not in choices:
        raise ArgumentError(f"{name}={value!r}: one of {', '.join(map(repr, choices))}")
    return value


@dataclass(frozen=True)
class Settings:
    """How attention is computed; the options --attn, --frame, --budget and --attn-type of the programs."""

    attention: str = "auto"
    frame: str | None = None
    budget: float | None = None
    attention_type: str = "auto"
    n_threads: int = 0
    estimate: bool = False
    batch_tokens: int = 0

    def params(self) -> l.ContextParams:
        p = l.lib.mra_context_params_default()
        p.n_threads = self.n_threads
        p.attention = ATTENTION[choice("attention", self.attention, ATTENTION)]
        p.attention_type = ATTENTION_TYPE[choice("attention_type", self.attention_type, ATTENTION_TYPE)]
        if self.frame is not None:
            l.call("mra_attn_params_parse", c.byref(p.attn), self.frame.encode(), about="frame: ")
        if self.budget is not None:
            if not 1e-6 <= self.budget <= 1:
                raise ArgumentError(f"budget={self.budget!r}: a part of exact attention's work, from 1e-6 to 1")
            p.attn.budget = self.budget
        p.n_error_rows = -1 if self.estimate else 0
        if self.batch_tokens < 0 or self.n_threads < 0:
            raise ArgumentError("n_threads and batch_tokens cannot be negative")
        p.n_batch = self.batch_tokens
        return p


@dataclass(frozen=True)
class AttentionError:
    """How far attention was from exact attention in one text, estimated from a sample of queries, as `mra-embed --estimate` says it.

    Relative errors of what attention computes, that is ||out - exact|| / ||exact||; of embeddings they say nothing directly.
    """

    error: float  # over all heads
    interval: tuple[float, float]  # where it is with 95 % confidence
    heads_mean: float
    heads_max: float
    worst: tuple[int, int] | None  # layer and head of heads_max; None: attention was exact in floats


class Context:
    """A context of the library: threads and memory of one computation at a time."""

    def __init__(self, model: "Model", settings: Settings):
        self.model, self.settings, self.pid = model, settings, os.getpid()
        self.handle = l.call("mra_context_new", model.handle, c.byref(settings.params()))

    def __del__(self) -> None:
        # a forked process has no threads of it, and must not wait for them
        if getattr(self, "handle", None) and self.pid == os.getpid():
            l.lib.mra_context_free(self.handle)

    def encode(self, lists: Sequence[l.TokenList], want: l.Output) -> np.ndarray:
        seqs = (l.Seq * len(lists))(*(l.Seq(n=t.n, tokens=t.data) for t in lists))
        result = l.Result()
        l.call("mra_encode", self.handle, seqs, len(lists), c.byref(want), c.byref(result))
        rows = np.ctypeslib.as_array(result.data, (result.n_rows, result.n_cols)).copy()
        if not np.isfinite(rows).all():
            raise FormatError("the model's result is not a finite number: its file may be damaged")
        return rows

    def error_of(self, seq: int) -> AttentionError:
        info = self.model.info
        s = l.lib.mra_error_summary_of(l.lib.mra_context_errors(self.handle, seq), info.n_layer, info.n_head)
        return AttentionError(s.all.error, (s.all.low, s.all.high), s.mean, s.worst_head.error,
                              (s.layer, s.head) if s.n_heads else None)


class Model:
    """A GGUF file. It does not change: any number of threads may use it, each call takes a context that is free or makes one."""

    def __init__(self, path: str | os.PathLike[str], device: str | None = None, mmap: bool = True):
        self.path = os.fspath(path)
        params = l.ModelParams(device=(device or "cpu").encode(), no_mmap=not mmap)
        self.handle = l.call("mra_model_load", os.fsencode(self.path), c.byref(params))
        self.info: l.ModelInfo = l.lib.mra_model_info(self.handle)
        self.tokenizer = l.lib.mra_model_tokenizer(self.handle)
        self._lock = threading.Lock()
        self._free: list[Context] = []
        note = text_of(self.info.note)
        if note:
            warnings.warn(f"{self.path}: {note}", stacklevel=4)

    def __del__(self) -> None:  # contexts refer to the model, so they are gone before
        if getattr(self, "handle", None):
            l.lib.mra_model_free(self.handle)

    def take(self, settings: Settings) -> Context:
        with self._lock:
            self._free = [x for x in self._free if x.pid == os.getpid()]
            for i, x in enumerate(self._free):
                if x.settings == settings:
                    return self._free.pop(i)
        return Context(self, settings)

    def give_back(self, context: Context) -> None:
        keep = 2 * (os.cpu_count() or 1)
        with self._lock:
            self._free.append(context)
            dropped, self._free = self._free[:-keep], self._free[-keep:]
        del dropped

    def prompts(self) -> dict[str, str]:
        found: dict[str, str] = {}
        while (name := l.lib.mra_model_prompt_name(self.handle, len(found))) is not None:
            found[text_of(name)] = text_of(l.lib.mra_model_prompt(self.handle, name))
        return found

    def labels(self) -> list[str]:
        return [text_of(l.lib.mra_model_label(self.handle, i)) or f"LABEL_{i}" for i in range(self.info.n_class)]


def _bytes(text: str, name: str) -> bytes:
    if not isinstance(text, str):
        raise TypeError(f"{name} is {type(text).__name__}, not str")
    return text.encode("utf-8")


@dataclass
class Texts:
    """Texts or pairs -> tokens, within a limit."""

    model: Model
    limit: int
    truncate: bool
    prefix: str = ""

    def tokens(self, text: str | Sequence[str], name: str) -> l.TokenList:
        pair = not isinstance(text, str)
        if pair and (not isinstance(text, (list, tuple)) or len(text) != 2):
            raise TypeError(f"{name} is neither a text nor a pair of texts: {str(type(text).__name__)}")
        a = _bytes(self.prefix, "prompt") + _bytes(text[0] if pair else text, name)
        b = _bytes(text[1], name) if pair else None
        out, n_b = l.TokenList(), len(b or b"")
        # whole first: what is cut must be known
        l.call("mra_tokenize", self.model.tokenizer, a, len(a), b, n_b, l.CONSTANTS["MRA_TOKENIZE_ADD_SPECIAL"], c.byref(out),
               about=f"{name}: ")
        if out.n == 0:
            raise ArgumentError(f"{name}: no tokens: the text is empty")
        n = out.n
        if n > self.limit and not self.truncate:
            more = f", max_seq_length up to {self.model.info.n_ctx}" if self.limit < self.model.info.n_ctx else ""
            raise TooLongError(f"{name}: {n} tokens, the limit is {self.limit}: truncate=True{more}")
        if not pair and n <= self.limit:
            return out
        # cuts the longer one; types that the model does not have become 0
        l.call("mra_model_tokenize", self.model.handle, a, len(a), b, n_b, min(n, self.limit), c.byref(out), about=f"{name}: ")
        return out


@dataclass
class Job:
    """Texts through the model, a batch at a time."""

    texts: Texts
    settings: Settings
    want: Callable[[list[l.TokenList]], l.Output]
    batch_size: int | None = None
    progress: bool = False
    name: str = "text"
    errors: list[AttentionError] = field(default_factory=list)

    def run(self, inputs: Sequence) -> Iterator[tuple[list[l.TokenList], np.ndarray]]:
        """(tokens, rows) of each batch, in the order of the inputs. Rows do not depend on the batch."""
        if self.batch_size is not None and self.batch_size < 1:
            raise ArgumentError(f"batch_size={self.batch_size}: at least 1")
        self.settings.params()  # refused before anything is computed, also where there are no texts
        batch: list[l.TokenList] = []
        n_tokens = 0
        most = 4 * (self.settings.batch_tokens or l.CONSTANTS["MRA_DEFAULT_BATCH"])  # several passes: sorted by length within a batch
        for i, text in enumerate(inputs):
            batch.append(self.texts.tokens(text, f"{self.name} {i}"))
            n_tokens += batch[-1].n
            if len(batch) == self.batch_size or (self.batch_size is None and n_tokens >= most) or i + 1 == len(inputs):
                yield batch, self.encode(batch)
                self.show(i + 1, len(inputs))
                batch, n_tokens = [], 0

    def encode(self, batch: list[l.TokenList]) -> np.ndarray:
        model = self.texts.model
        context = model.take(self.settings)
        rows = context.encode(batch, self.want(batch))  # a context that failed is not used again
        if self.settings.estimate:
            self.errors += [context.error_of(i) for i in range(len(batch))]
        model.give_back(context)
        return rows

    def show(self, done: int, all_: int) -> None:
        if self.progress:
            print(f"\r{done}/{all_} texts", end="\n" if done == all_ else "", file=sys.stderr, flush=True)


class Base:
    """What the classes on a model have in common."""

    def __init__(self, model_name_or_path: "str | os.PathLike[str] | Base", *, attention: str = "auto", budget: float | None = None,
                 frame: str | None = None, attention_type: str = "auto", max_seq_length: int | None = None, truncate: bool = False,
                 n_threads: int = 0, batch_tokens: int = 0, device: str | None = None, mmap: bool = True):
        shared = isinstance(model_name_or_path, Base)
        self._model = model_name_or_path._model if shared else Model(model_name_or_path, device, mmap)
        self._settings = Settings(attention, frame, budget, attention_type, n_threads, False, batch_tokens)
        self._settings.params()
        self.truncate = truncate
        self._limit = self._model.info.max_length
        if max_seq_length is not None:
            self.max_seq_length = max_seq_length

    @property
    def max_seq_length(self) -> int:
        """Most tokens of a text, special tokens included. Longer ones are refused, with truncate=True cut."""
        return self._limit

    @max_seq_length.setter
    def max_seq_length(self, n: int) -> None:
        if not 1 <= n <= self._model.info.n_ctx:
            raise ArgumentError(f"max_seq_length={n}: the model has {self._model.info.n_ctx} positions")
        self._limit = n

    @property
    def tokenizer(self):
        """The model's tokenizer."""
        from ._tokenizer import Tokenizer

        return Tokenizer(self)

    def attention_of(self, n_tokens: int) -> str:
        """Which attention a text of that many tokens gets, such as "exact" or "sorted, budget 0.25"."""
        p = self._settings.params()
        return l.lib.mra_attention_of(self._model.handle, c.byref(p), n_tokens).text.decode()

    def _texts(self, truncate: bool | None = None, prefix: str = "") -> Texts:
        return Texts(self._model, self._limit, self.truncate if truncate is None else truncate, prefix)

    def _need_classes(self) -> None:
        if self._model.info.n_class == 0:
            raise ArgumentError(f"{self._model.path} has no classifier")


__all__ = ["AttentionError", "Base", "Job", "Model", "MraError", "Settings", "Texts"]
