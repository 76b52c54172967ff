#!/usr/bin/env python3
"""Makes heads/ and tags/: tiny random models with the heads of each family, and what transformers gives for them.

    pip install -r tests/golden/requirements.txt
    python tests/golden/make_heads.py [NAME...]

heads/NAME.gguf, NAME.lengths.npy, NAME.ids.npy and NAME.logits.npy: logits of a classifier [n_texts, n_labels], or of a word predictor
[n_tokens, n_vocab], from float64 arithmetic. tags/NAME.gguf and tags/entities.json: entities of texts by transformers' token-classification
pipeline, [label, score, first byte, end] for each way to aggregate.
"""
from __future__ import annotations

import json
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

from make_families import HERE, N_VOCAB, SMALL, convert, randomise, torch, transformers, write_family_tokenizer

TINY = dict(SMALL, num_hidden_layers=1, max_position_embeddings=130)
BRACKETS = dict(bos_token_id=0, cls_token_id=0, eos_token_id=2, sep_token_id=2, pad_token_id=1)
MODERN = dict(TINY, local_attention=6, **BRACKETS)
EURO = dict(TINY, rope_parameters={"rope_type": "default", "rope_theta": 250000.0}, bos_token_id=0, eos_token_id=2, pad_token_id=1, mask_token_id=4)
GTE = dict(TINY, type_vocab_size=1, pad_token_id=1, rope_parameters={"rope_type": "default", "rope_theta": 160000.0})
DISTIL = dict(vocab_size=N_VOCAB, dim=32, n_heads=2, n_layers=1, hidden_dim=64, max_position_embeddings=130)
NOMIC = dict(TINY, pad_token_id=0)
SEQUENCE, WORDS, TOKENS = "ForSequenceClassification", "ForMaskedLM", "ForTokenClassification"

# name: class, head, settings, tokenizer
HEADS = {
    "modernbert-cls": ("ModernBert", SEQUENCE, dict(MODERN, classifier_pooling="cls"), "brackets"),
    "modernbert-mean": ("ModernBert", SEQUENCE, dict(MODERN, classifier_pooling="mean", classifier_bias=True, norm_bias=True), "brackets"),
    "modernbert-mlm": ("ModernBert", WORDS, MODERN, "brackets"),
    "eurobert-late": ("EuroBert", SEQUENCE, dict(EURO, classifier_pooling="late"), "digits"),
    "eurobert-mean": ("EuroBert", SEQUENCE, dict(EURO, classifier_pooling="mean"), "digits"),
    "eurobert-bos": ("EuroBert", SEQUENCE, dict(EURO, classifier_pooling="bos"), "digits"),
    "eurobert-mlm": ("EuroBert", WORDS, EURO, "digits"),
    "nomic-cls": ("NomicBert", SEQUENCE, NOMIC, "wordpiece"),
    "nomic-mlm": ("NomicBert", WORDS, NOMIC, "wordpiece"),
    "gte-cls": ("Gte", SEQUENCE, GTE, "unigram"),
    "gte-mlm": ("Gte", WORDS, GTE, "unigram"),
    "jina-v3-cls": ("JinaEmbeddingsV3", SEQUENCE, TINY, "unigram"),
    "jina-v3-mlm": ("JinaEmbeddingsV3", WORDS, TINY, "unigram"),
    "distilbert-cls": ("DistilBert", SEQUENCE, DISTIL, "wordpiece"),
    "distilbert-mlm": ("DistilBert", WORDS, DISTIL, "wordpiece"),
}
BERT = dict(TINY, pad_token_id=0)
TAGGERS = {
    "bert": ("Bert", TOKENS, BERT, "wordpiece"),
    "roberta": ("Roberta", TOKENS, dict(TINY, type_vocab_size=1), "brackets"),
    "xlm-roberta": ("XLMRoberta", TOKENS, dict(TINY, type_vocab_size=1), "unigram"),
    "distilbert": ("DistilBert", TOKENS, DISTIL, "wordpiece"),
    "modernbert": ("ModernBert", TOKENS, MODERN, "brackets"),
}
LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC", "MISC", "NN-HL")
AGGREGATIONS = ("none", "simple", "first", "average", "max")
TEXTS = (
    "The rain in Spain stays mainly in the plain.",
    "Ada Lovelace and  Charles Babbage met in London, 1833!",
    "na\u00efve caf\u00e9 \u4e2d\u6587 \U0001f600 stra\u00dfe",
    "don't (word) #tag x\u00a0y",
    "Is this [MASK] or [SEP] or <mask> here?",
    "a",
)
# a letter and a mark that NFC makes one: tokenizers counts the letter alone as the token's place, ours both
TWO_MARKS = "a cafe\u0301 here"


def make_model(folder: Path, spec: tuple, n_labels: int, seed: int):
    kind, head, settings, tokenizer = spec
    labels = {i: LABELS[i] if head == TOKENS else f"class {i}" for i in range(n_labels)}
    names = {} if head == WORDS else dict(id2label=labels, label2id={v: k for k, v in labels.items()})
    config = getattr(transformers, kind + "Config")(**settings, **names)
    model = getattr(transformers, kind + head)(config).eval()
    randomise(model, np.random.default_rng(seed))
    model.half().save_pretrained(folder)
    write_family_tokenizer(folder, tokenizer, N_VOCAB)
    cls = getattr(transformers, kind + head)
    return cls.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()


def make_head(name: str) -> None:
    out = HERE / "heads"
    seed = sum(map(ord, name))
    lengths = (3, 8) if HEADS[name][1] == WORDS else (1, 7, 40, 33)
    texts = [np.random.default_rng(seed).integers(5, N_VOCAB - 1, n) for n in lengths]
    with tempfile.TemporaryDirectory() as temporary:
        model = make_model(Path(temporary), HEADS[name], 3, seed)
        with torch.no_grad():
            logits = [model(input_ids=torch.tensor(ids)[None]).logits[0].numpy() for ids in texts]
        convert(Path(temporary), out / f"{name}.gguf", "f16", name=f"tiny random {name}")
    logits = np.concatenate([x if x.ndim == 2 else x[None] for x in logits])
    for what, values, dtype in (("lengths", lengths, np.int32), ("ids", np.concatenate(texts), np.int32), ("logits", logits, np.float32)):
        np.save(out / f"{name}.{what}.npy", np.ascontiguousarray(values, dtype))
    print(f"{name}: logits of deviation {logits.std():.2f}")


def entities(pipe, text: str, how: str) -> list:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = pipe(text, aggregation_strategy=how)
    byte = lambda i: len(text[:i].encode())
    return [[e.get("entity_group", e.get("entity")), round(float(e["score"]), 6), byte(e["start"]), byte(e["end"])] for e in found]


def make_tagger(name: str) -> list:
    texts = TEXTS if TAGGERS[name][3] == "brackets" else (*TEXTS, TWO_MARKS)
    with tempfile.TemporaryDirectory() as temporary:
        model = make_model(Path(temporary), TAGGERS[name], len(LABELS), sum(map(ord, name)))
        tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(temporary)
        pipe = transformers.pipeline("token-classification", model=model.float(), tokenizer=tokenizer, device="cpu")
        convert(Path(temporary), HERE / "tags" / f"{name}.gguf", "f16", name=f"tiny random {name}")
        return [{"text": text, **{how: entities(pipe, text, how) for how in AGGREGATIONS}} for text in texts]


def main() -> None:
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    for folder in ("heads", "tags"):
        (HERE / folder).mkdir(exist_ok=True)
    names = sys.argv[1:] or [*HEADS, *TAGGERS]
    for name in names:
        if name in HEADS:
            make_head(name)
    path = HERE / "tags" / "entities.json"
    known = json.loads(path.read_text()) if path.is_file() else {}
    known.update({name: make_tagger(name) for name in names if name in TAGGERS})
    path.write_text("{" + ",\n".join(f'"{n}": [\n' + ",\n".join(map(json.dumps, known[n])) + "]" for n in sorted(known)) + "}\n")


if __name__ == "__main__":
    main()
