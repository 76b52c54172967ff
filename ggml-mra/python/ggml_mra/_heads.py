"""What models with a head compute: scores of pairs, labels, masked words."""
from __future__ import annotations

import ctypes as c
from typing import Any, Callable, Sequence

import numpy as np

from . import _library as l
from ._errors import ArgumentError
from ._model import Base, Job, choice

Activation = Callable[[np.ndarray], np.ndarray]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x.astype(np.float64)))


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x.astype(np.float64) - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def identity(x: np.ndarray) -> np.ndarray:
    return x


ACTIVATIONS: dict[str, Activation] = {"sigmoid": sigmoid, "softmax": softmax, "identity": identity}


class _Classes(Base):
    def _logits(self, inputs: Sequence, batch_size: int | None, progress: bool | None, name: str) -> np.ndarray:
        """[n, n_class]"""
        job = Job(self._texts(), self._settings, lambda _: l.Output(kind=l.CONSTANTS["MRA_OUTPUT_CLASS"]), batch_size, bool(progress), name)
        rows = [r for _, r in job.run(inputs)]
        return np.concatenate(rows) if rows else np.zeros((0, self._model.info.n_class), np.float32)


class CrossEncoder(_Classes):
    """Pairs of texts -> scores, with the argument names of sentence-transformers' CrossEncoder. Options as in Encoder.

        CrossEncoder("reranker.gguf").rank("a query", ["a document", "another"], top_k=1)
    """

    def __init__(self, model_name_or_path: Any, **options: Any):
        super().__init__(model_name_or_path, **options)
        self._need_classes()

    @property
    def num_labels(self) -> int:
        return self._model.info.n_class

    def predict(self, inputs: Sequence, batch_size: int | None = None, show_progress_bar: bool | None = None,
                activation_fn: str | Activation | None = None, apply_softmax: bool = False) -> np.ndarray:
        """Pairs -> [n], with more than one label [n, num_labels]; a single pair without the first dimension.

        activation_fn: "sigmoid" (the default with one label), "identity" (with more), "softmax", or a function of the logits.
        """
        one = len(inputs) == 2 and all(isinstance(x, str) for x in inputs)
        logits = self._logits([inputs] if one else list(inputs), batch_size, show_progress_bar, "pair")
        if activation_fn is None:
            activation_fn = "softmax" if apply_softmax and self.num_labels > 1 else "sigmoid" if self.num_labels == 1 else "identity"
        if isinstance(activation_fn, str):
            activation_fn = ACTIVATIONS[choice("activation_fn", activation_fn, ACTIVATIONS)]
        scores = np.asarray(activation_fn(logits), np.float32)
        if self.num_labels == 1:
            scores = scores[:, 0]
        return scores[0] if one else scores

    def rank(self, query: str, documents: Sequence[str], top_k: int | None = None, return_documents: bool = False,
             batch_size: int | None = None, show_progress_bar: bool | None = None,
             activation_fn: str | Activation | None = None) -> list[dict]:
        """[{"corpus_id", "score", "text"?}], best first; documents of equal score keep their order."""
        if self.num_labels != 1:
            raise ArgumentError(f"rank needs a model with one label, {self._model.path} has {self.num_labels}: use predict")
        scores = self.predict([(query, d) for d in documents], batch_size, show_progress_bar, activation_fn)
        order = np.argsort(-scores, kind="stable")[:top_k]
        return [{"corpus_id": int(i), "score": scores[i], **({"text": documents[i]} if return_documents else {})} for i in order]


class Classifier(_Classes):
    """Texts or pairs -> labels. Options as in Encoder.

        Classifier("sentiment.gguf")("What a lovely day.", top_k=1)     # [{"label": ..., "score": ...}]
    """

    def __init__(self, model_name_or_path: Any, **options: Any):
        super().__init__(model_name_or_path, **options)
        self._need_classes()
        self.labels = self._model.labels()

    def predict_logits(self, inputs: Sequence, batch_size: int | None = None, show_progress_bar: bool | None = None) -> np.ndarray:
        """[n, number of labels]"""
        return self._logits(list(inputs), batch_size, show_progress_bar, "text")

    def predict_proba(self, inputs: Sequence, batch_size: int | None = None, show_progress_bar: bool | None = None) -> np.ndarray:
        """[n, number of labels]: softmax; sigmoid of each where labels are independent; the numbers themselves for regression."""
        logits = self.predict_logits(inputs, batch_size, show_progress_bar)
        return np.asarray((softmax, sigmoid, identity)[self._model.info.problem](logits), np.float32)

    def __call__(self, inputs: Any, top_k: int | None = None) -> list:
        """A text or a pair (a tuple) -> [{"label", "score"}], best first; a list of them -> a list of such lists."""
        one = isinstance(inputs, (str, tuple))
        out = []
        for row in self.predict_proba([inputs] if one else inputs):
            out.append([{"label": self.labels[i], "score": float(row[i])} for i in np.argsort(-row, kind="stable")[:top_k]])
        return out[0] if one else out


class FillMask(Base):
    """The words that a model expects in place of <mask>. Options as in Encoder.

        FillMask("roberta.gguf")("The capital of France is <mask>.", top_k=5)
    """

    NAMES = ("<mask>", "[MASK]")

    def __init__(self, model_name_or_path: Any, **options: Any):
        super().__init__(model_name_or_path, **options)
        if not self._model.info.has_mlm:
            raise ArgumentError(f"{self._model.path} has no masked-language-model head (converted with --no-mlm, or not trained with one)")
        found = [(n, self.tokenizer.token_to_id(n)) for n in self.NAMES]
        self.mask_token, self.mask_token_id = next(((n, i) for n, i in found if i is not None), ("", -1))
        if self.mask_token_id < 0:
            raise ArgumentError(f"{self._model.path} has no mask token")

    def __call__(self, inputs: str | Sequence[str], top_k: int = 5) -> list:
        """A text -> [{"score", "token", "token_str", "sequence"}], best first; with several masks a list for each; a list -> a list of those.

        Each mask is filled by itself; `sequence` has only that one filled.
        """
        if not 1 <= top_k:
            raise ArgumentError(f"top_k={top_k}: at least 1")
        one = isinstance(inputs, str)
        texts = [self._own_masks(t) for t in ([inputs] if one else list(inputs))]
        job = Job(self._texts(), self._settings, self._want, name="text")
        out: list = []
        for lists, rows in job.run(texts):
            at = 0
            for tokens in lists:
                places = self._masks(tokens)
                text = texts[len(out)]
                each = [self._fill(text, tokens.data[p], row, top_k) for p, row in zip(places, rows[at:at + len(places)])]
                at += len(places)
                out.append(each[0] if len(each) == 1 else each)
        return out[0] if one else out

    def _own_masks(self, text: str) -> str:
        for name in self.NAMES:
            text = text.replace(name, self.mask_token)
        if self.mask_token not in text:
            raise ArgumentError(f"no {self.mask_token} in the text {text[:60]!r}")
        return text

    def _masks(self, tokens: l.TokenList) -> list[int]:
        return [i for i in range(tokens.n) if tokens.data[i].id == self.mask_token_id]

    def _want(self, lists: list[l.TokenList]) -> l.Output:
        at = [l.At(i, p) for i, tokens in enumerate(lists) for p in self._masks(tokens)]
        if not at:
            raise ArgumentError(f"no {self.mask_token} within the first {self.max_seq_length} tokens")
        array = (l.At * len(at))(*at)
        return l.Output(kind=l.CONSTANTS["MRA_OUTPUT_MLM"], at=c.cast(array, c.POINTER(l.At)), n_at=len(at))

    def _fill(self, text: str, token: l.Token, logits: np.ndarray, top_k: int) -> list[dict]:
        probability, raw, tokenizer = softmax(logits), text.encode("utf-8"), self.tokenizer
        out = []
        for i in np.argsort(-logits, kind="stable")[:top_k]:
            word = tokenizer.id_to_text(int(i))
            before, after = raw[:token.start].decode("utf-8", "replace"), raw[token.end:].decode("utf-8", "replace")
            if word.startswith(" ") and (not before or before.endswith(" ")):
                filled = word[1:]
            else:
                filled = word
            out.append({"score": float(probability[i]), "token": int(i), "token_str": word, "sequence": before + filled + after})
        return out
