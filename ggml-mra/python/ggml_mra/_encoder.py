"""Embeddings."""
from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, Sequence

import numpy as np

from . import _library as l
from ._errors import ArgumentError, UnsupportedError
from ._model import AttentionError, Base, Job, choice
from ._quantize import PRECISIONS, quantize_embeddings

POOLING = ("default", "mean", "cls", "last", "max", "mean_sqrt")
SIMILARITY = ("cosine", "dot", "euclidean", "manhattan")


class Encoder(Base):
    """Texts -> embeddings, with the argument names of sentence-transformers.

        encoder = Encoder("model.gguf")
        encoder.encode(["a text", "another"])            # float32 [2, dimensions]

    The numbers are those of `mra-embed`, bit for bit. Any number of threads may call it at the same time.

    attention: "auto" (exact up to some thousand tokens, above that approximate; a model trained with MRA as trained), "exact" or "mra".
    budget, frame: of approximate attention: its work as a part of exact attention's, and which kind (docs/attention.md).
    attention_type: "auto", "float" or "int8".
    max_seq_length: most tokens of a text. A longer one is an error, unless truncate=True drops its end.
    prompts, default_prompt_name: instead of those of the file.
    n_threads: 0: all CPUs, shared with other computations. batch_tokens: computed at a time; bounds the memory.
    model_name_or_path: a GGUF file, or another object of this package whose model is to be shared.
    """

    def __init__(self, model_name_or_path: "str | os.PathLike[str] | Base", *, prompts: dict[str, str] | None = None,
                 default_prompt_name: str | None = None, similarity_fn_name: str = "cosine", truncate_dim: int | None = None,
                 pooling: str = "default", attention: str = "auto", budget: float | None = None, frame: str | None = None,
                 attention_type: str = "auto", max_seq_length: int | None = None, truncate: bool = False, n_threads: int = 0,
                 batch_tokens: int = 0, device: str | None = None, mmap: bool = True):
        super().__init__(model_name_or_path, attention=attention, budget=budget, frame=frame, attention_type=attention_type,
                         max_seq_length=max_seq_length, truncate=truncate, n_threads=n_threads, batch_tokens=batch_tokens,
                         device=device, mmap=mmap)
        self.prompts = self._model.prompts() if prompts is None else dict(prompts)
        self.default_prompt_name = default_prompt_name
        if default_prompt_name is None and prompts is None:
            text = l.lib.mra_model_prompt(self._model.handle, None)
            self.default_prompt_name = None if text is None else \
                next((n for n, t in self.prompts.items() if t.encode() == text), None)
        if self.default_prompt_name is not None:
            self._prompt(None, self.default_prompt_name)
        self.similarity_fn_name = choice("similarity_fn_name", similarity_fn_name, SIMILARITY)
        self.pooling = choice("pooling", pooling, POOLING)
        self.truncate_dim = truncate_dim

    def get_sentence_embedding_dimension(self) -> int:
        return self.truncate_dim or self._model.info.n_pooled

    def _prompt(self, prompt: str | None, prompt_name: str | None) -> str:
        if prompt is not None:
            return prompt
        name = prompt_name or self.default_prompt_name
        if name is None:
            return ""
        if name not in self.prompts:
            raise ArgumentError(f"prompt_name={name!r}: {self._model.path} has {', '.join(map(repr, self.prompts)) or 'no prompts'}")
        return self.prompts[name]

    def encode(self, inputs: str | Sequence[str], prompt_name: str | None = None, prompt: str | None = None,
               batch_size: int | None = None, show_progress_bar: bool | None = None, output_value: str = "sentence_embedding",
               precision: str = "float32", convert_to_numpy: bool = True, convert_to_tensor: bool = False, device: str | None = None,
               normalize_embeddings: bool = False, truncate_dim: int | None = None, *, attention: str | None = None,
               budget: float | None = None, frame: str | None = None, truncate: bool | None = None,
               estimate: bool = False) -> Any:
        """A text -> its embedding [dimensions]; a list -> [n, dimensions].

        output_value="token_embeddings": the last hidden state of each token, special ones included; a list of [n_tokens, dimensions].
        precision: float32, int8, uint8, binary, ubinary, as quantize_embeddings.
        normalize_embeddings: to length 1; without it as the model's own file says.
        attention, budget, frame, truncate: instead of what the object was made with.
        estimate: also how large the error of attention was: returns (embeddings, AttentionError or a list of them).
        batch_size changes the memory, not the result. Tensors and other devices than the model's are refused.
        """
        if convert_to_tensor or not convert_to_numpy:
            raise UnsupportedError("results are numpy arrays: torch.from_numpy makes tensors of them")
        if device is not None and device != (self._model.info.device or b"").decode().lower():
            raise UnsupportedError(f"device={device!r}: the model is on {self._model.info.device.decode()}; Encoder(..., device=)")
        choice("output_value", output_value, ("sentence_embedding", "token_embeddings"))
        choice("precision", precision, PRECISIONS)
        tokens = output_value == "token_embeddings"
        if tokens and precision != "float32":
            raise UnsupportedError("token embeddings are float32 only")
        one = isinstance(inputs, str)
        settings = replace(self._settings, attention=attention or self._settings.attention, estimate=estimate,
                           budget=self._settings.budget if budget is None else budget, frame=frame or self._settings.frame)
        dims = self._dims(truncate_dim)
        job = Job(self._texts(truncate, self._prompt(prompt, prompt_name)), settings, lambda _: self._want(tokens, normalize_embeddings, dims),
                  batch_size, bool(show_progress_bar))
        rows: list = []
        for lists, result in job.run([inputs] if one else list(inputs)):
            if tokens:
                ends = np.cumsum([t.n for t in lists])
                rows += np.split(result, ends[:-1])
            else:
                rows.append(result[:, :dims])
        out = rows if tokens else quantize_embeddings(np.concatenate(rows) if rows else np.zeros((0, dims), np.float32), precision)
        if one:
            return (out[0], job.errors[0]) if estimate else out[0]
        return (out, job.errors) if estimate else out

    def _dims(self, truncate_dim: int | None) -> int:
        n = self._model.info.n_pooled
        dims = truncate_dim or self.truncate_dim or n
        if not 1 <= dims <= n:
            raise ArgumentError(f"truncate_dim={dims}: the model's embeddings have {n}")
        return dims

    def _want(self, tokens: bool, normalize: bool, dims: int) -> l.Output:
        if tokens:
            return l.Output(kind=l.CONSTANTS["MRA_OUTPUT_TOKENS"])
        # a model's own normalization comes before the cut, the one that is asked for behind it, as in sentence-transformers
        return l.Output(kind=l.CONSTANTS["MRA_OUTPUT_POOLED"], pooling=POOLING.index(self.pooling), normalize=int(normalize),
                        n_dims=dims if normalize else 0)

    def encode_query(self, inputs: str | Sequence[str], prompt_name: str | None = None, prompt: str | None = None, **options: Any) -> Any:
        """encode() with the prompt "query", where the model has one."""
        return self._encode_for(("query",), inputs, prompt_name, prompt, options)

    def encode_document(self, inputs: str | Sequence[str], prompt_name: str | None = None, prompt: str | None = None, **options: Any) -> Any:
        """encode() with the first prompt of "document", "passage", "corpus" that the model has."""
        return self._encode_for(("document", "passage", "corpus"), inputs, prompt_name, prompt, options)

    def _encode_for(self, names: tuple, inputs: Any, prompt_name: str | None, prompt: str | None, options: dict) -> Any:
        if prompt is None and prompt_name is None:
            prompt_name = next((n for n in names if n in self.prompts), None)
        return self.encode(inputs, prompt_name=prompt_name, prompt=prompt, **options)

    def similarity(self, embeddings1: np.ndarray, embeddings2: np.ndarray) -> np.ndarray:
        """Of every pair: [n1, n2], by similarity_fn_name; distances are negative."""
        a, b = np.atleast_2d(embeddings1).astype(np.float32), np.atleast_2d(embeddings2).astype(np.float32)
        if self.similarity_fn_name == "manhattan":
            return np.stack([-np.abs(x - b).sum(axis=1) for x in a]) if len(a) else np.zeros((0, len(b)), np.float32)
        if self.similarity_fn_name == "euclidean":
            return np.stack([-np.linalg.norm(x - b, axis=1) for x in a]) if len(a) else np.zeros((0, len(b)), np.float32)
        if self.similarity_fn_name == "cosine":
            a, b = _unit(a), _unit(b)
        return a @ b.T

    def similarity_pairwise(self, embeddings1: np.ndarray, embeddings2: np.ndarray) -> np.ndarray:
        """Of the i-th of both: [n]."""
        a, b = np.atleast_2d(embeddings1).astype(np.float32), np.atleast_2d(embeddings2).astype(np.float32)
        if self.similarity_fn_name == "manhattan":
            return -np.abs(a - b).sum(axis=1)
        if self.similarity_fn_name == "euclidean":
            return -np.linalg.norm(a - b, axis=1)
        if self.similarity_fn_name == "cosine":
            a, b = _unit(a), _unit(b)
        return (a * b).sum(axis=1)


def _unit(x: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.where(length > 0, length, 1)


__all__ = ["AttentionError", "Encoder"]
