"""Settings of tokenizer.json by name, on top of the vocabularies in tokenizer/; needs neither `tokenizers` nor a build.

VARIANTS: name -> (vocabulary, changes of tokenizer.json's keys, words of the refusal or None). Expected ids are in tokenizer/variants.want,
made by make_variants.py; ../test_convert_tokenizer.py compares the converter and the C tokenizers with them.
"""
from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import struct
import zlib

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizer")
META = "\u2581"
ADD_SPECIAL = 1
CONTROL, UNKNOWN, UNUSED = 3, 2, 5


def unescape(s: str) -> bytes:
    return re.sub(r"\\x(..)", lambda m: chr(int(m[1], 16)), s).encode("latin-1")


def escape(data: bytes) -> str:
    return "".join(chr(b) if 0x21 <= b <= 0x7E and b != 0x5C else f"\\x{b:02X}" for b in data)


def read_cases(name: str) -> list:
    """[(a, b or None, flags)] as bytes"""
    with open(os.path.join(HERE, name), newline="\n") as f:
        rows = [line.rstrip("\n").split("\t") for line in f]
    return [(unescape(r[1]), unescape(r[2]) if len(r) > 2 else None, int(r[0])) for r in rows if r[0]]


def read_vocab(name: str) -> dict:
    out = {"tokens": [], "merges": [], "ids": {}, "charsmap": b""}
    with open(os.path.join(HERE, name + ".vocab"), newline="\n") as f:
        for key, *rest in (line.rstrip("\n").split("\t") for line in f):
            if key == "token":
                out["tokens"].append((unescape(rest[2]).decode(), float(rest[1]), int(rest[0])))
            elif key == "merge":
                out["merges"].append(unescape(rest[0]).decode())
            elif key == "id":
                out["ids"][rest[0]] = int(rest[1])
            elif key == "charsmap":
                out["charsmap"] += unescape(rest[0])
    return out


def added(i: int, text: str, **flags) -> dict:
    return {"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False, **flags}


def special(text: str, kind: int = 0) -> dict:
    return {"SpecialToken": {"id": text, "type_id": kind}}


def text(name: str, kind: int = 0) -> dict:
    return {"Sequence": {"id": name, "type_id": kind}}


def template(single: list, pair: list, **ids) -> dict:
    names = {p["SpecialToken"]["id"] for p in single + pair if "SpecialToken" in p}
    tokens = {n: {"id": n, "ids": IDS[n], "tokens": [n] * len(IDS[n])} for n in names}
    return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": tokens}


IDS = {"<s>": [0], "</s>": [2], "[CLS]": [2], "[SEP]": [3], "two": [2, 3]}
BERT_NORM = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
LLAMA_3 = {"type": "Split", "behavior": "Isolated", "invert": False, "pattern": {
    "Regex": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"}}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
ROBERTA = {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0], "trim_offsets": True, "add_prefix_space": False}
SPLIT = {"type": "WhitespaceSplit"}
BERT_TEMPLATE = template([special("[CLS]"), text("A"), special("[SEP]")],
                         [special("[CLS]"), text("A"), special("[SEP]"), text("B", 1), special("[SEP]", 1)])
ANGLE_TEMPLATE = template([special("<s>"), text("A"), special("</s>")],
                          [special("<s>"), text("A"), special("</s>"), special("</s>"), text("B"), special("</s>")])


def meta(**options) -> dict:
    return {"type": "Metaspace", "replacement": META, "prepend_scheme": "always", "split": True, **options}


def seq(*steps) -> dict:
    key = "normalizers" if steps[0]["type"] in NORMALIZERS else "pretokenizers"
    return {"type": "Sequence", key: list(steps)}


NORMALIZERS = ("BertNormalizer", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Strip", "Replace", "Precompiled")


def base(name: str) -> dict:
    """tokenizer.json of a vocabulary as roberta-base, bert-base-* and xlm-roberta-base have it."""
    v = read_vocab(name)
    specials = [i for i, (_, _, t) in enumerate(v["tokens"]) if t in (CONTROL, UNKNOWN)]
    mask = v["ids"]["mask"]
    data = {"version": "1.0", "truncation": None, "padding": None, "normalizer": None, "decoder": None,
            "added_tokens": [added(i, v["tokens"][i][0], special=True, lstrip=i == mask and "<" in v["tokens"][i][0]) for i in specials]}
    if name == "bpe":
        data.update(pre_tokenizer=BYTE_LEVEL, post_processor=ROBERTA,
                    model={"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "", "end_of_word_suffix": "",
                           "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                           "vocab": {t[0]: i for i, t in enumerate(v["tokens"])}, "merges": v["merges"]})
    elif name == "unigram":
        rows = [[s, score] for s, score, t in v["tokens"] if t != UNUSED]
        data.update(normalizer={"type": "Precompiled", "precompiled_charsmap": base64.b64encode(v["charsmap"]).decode()},
                    pre_tokenizer=seq(SPLIT, meta()), post_processor=ANGLE_TEMPLATE,
                    model={"type": "Unigram", "unk_id": v["ids"]["unk"], "vocab": rows, "byte_fallback": False})
    else:
        spell = lambda s, t: s if t in (CONTROL, UNKNOWN) else s[1:] if s.startswith(META) else "##" + s
        data.update(normalizer={**BERT_NORM, "lowercase": name == "uncased"}, pre_tokenizer={"type": "BertPreTokenizer"},
                    post_processor=BERT_TEMPLATE,
                    model={"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
                           "vocab": {spell(s, t): i for i, (s, _, t) in enumerate(v["tokens"])}})
    return data


def variant(name: str) -> dict:
    kind, changes, _ = VARIANTS[name]
    data = base(kind)
    n = len(data["model"]["vocab"])
    for key, value in changes.items():
        if key == "add":
            known = data["model"]["vocab"] if isinstance(data["model"]["vocab"], dict) else {p[0]: i for i, p in enumerate(data["model"]["vocab"])}
            for i, t, flags in value:
                new = max([n] + [token["id"] + 1 for token in data["added_tokens"]])
                data["added_tokens"].append(added(known.get(t, new) if i is None else i, t, **flags))
        elif key == "flags":  # of tokens that are there
            for token in data["added_tokens"]:
                token.update(value.get(token["content"], {}))
        elif key == "post":
            data["post_processor"] = value
        elif key == "fewer_merges":  # so that some words are tokens which merges do not make; pieces of what is left must be there
            data["model"]["merges"] = [m for i, m in enumerate(data["model"]["merges"]) if i < 40 or i % 3]
        elif key == "model":
            data["model"].update(value)
        else:
            data[key] = value
    return data


def n_ids(data: dict) -> int:
    return max([len(data["model"]["vocab"])] + [t["id"] + 1 for t in data["added_tokens"]])


def pack_wants(want: bytes, base_want: bytes) -> str:
    """What differs from the default of the vocabulary is little."""
    return base64.b64encode(zlib.compress(bytes(a ^ b for a, b in zip(want, base_want)), 9)).decode()


def read_wants() -> dict:
    """name -> two bytes per string, of all_cases()"""
    out = {}
    with open(os.path.join(HERE, "variants.want"), newline="\n") as f:
        for name, packed in (line.rstrip("\n").split("\t") for line in f):
            delta = zlib.decompress(base64.b64decode(packed)) if packed else b""
            out[name] = bytes(a ^ b for a, b in zip(delta, out.get(default_of(name), bytes(len(delta)))))
    return out


def default_of(name: str) -> str:
    return f"{VARIANTS[name][0]}: default" if name in VARIANTS else ""


def digest(ids: list, types: list) -> bytes:
    return hashlib.sha256(struct.pack(f"<{2 * len(ids)}i", *ids, *types)).digest()[:2]


def _variants() -> dict:
    out = {}

    def put(kind, label, refused=None, **changes):
        out[f"{kind}: {label}"] = (kind, changes, refused)

    for kind in ("bpe", "uncased", "cased", "unigram"):
        put(kind, "default")
        put(kind, "no post-processor", post=None)
        put(kind, "no added tokens", added_tokens=[])
        for flag in ("lstrip", "rstrip", "single_word", "normalized"):
            put(kind, f"added {flag}", add=[(None, "<new>", {flag: True}), (None, "fox", {flag: True})])
        put(kind, "added, all flags", add=[(None, "<New>", {"lstrip": True, "rstrip": True, "single_word": True, "normalized": True})])
        put(kind, "added special, single word", add=[(None, "The", {"single_word": True, "special": True}), (None, "a b", {"rstrip": True})])
        mask = "<mask>" if kind in ("bpe", "unigram") else "[MASK]"
        put(kind, "mask without lstrip", flags={mask: {"lstrip": False}})
        put(kind, "mask with lstrip and rstrip", flags={mask: {"lstrip": True, "rstrip": True}})
        put(kind, "mask normalized", flags={mask: {"normalized": True}})
        for form in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"):
            put(kind, f"normalizer {form}", normalizer={"type": form})
        put(kind, "normalizers NFD, Lowercase, StripAccents", normalizer=seq({"type": "NFD"}, {"type": "Lowercase"}, {"type": "StripAccents"}))
        put(kind, "normalizers Strip, NFKC", normalizer=seq({"type": "Strip", "strip_left": True, "strip_right": True}, {"type": "NFKC"}))
        put(kind, "normalizer Strip left", normalizer={"type": "Strip", "strip_left": True, "strip_right": False})
        put(kind, "normalizer none", normalizer=None)
        put(kind, "added normalized, normalizers NFKC, Lowercase", normalizer=seq({"type": "NFKC"}, {"type": "Lowercase"}),
            add=[(None, "ＦＯＸ", {"normalized": True}), (None, "Quick", {"normalized": True, "single_word": True}), (None, "LAZY", {})])
        put(kind, "normalizer Replace", "normalizer Replace", normalizer={"type": "Replace", "pattern": {"String": "a"}, "content": "b"})
        put(kind, "normalizer Nmt", "normalizer 'Nmt'", normalizer={"type": "Nmt"})
        put(kind, "normalizer Prepend", "normalizer 'Prepend'", normalizer={"type": "Prepend", "prepend": "x"})
        put(kind, "pre-tokenizer Split", "pre-tokenizer Split",
            pre_tokenizer=seq({"type": "Split", "pattern": {"String": "a"}, "behavior": "Isolated", "invert": False}, BYTE_LEVEL))
        put(kind, "pre-tokenizer UnicodeScripts", "pre-tokenizer 'UnicodeScripts'", pre_tokenizer={"type": "UnicodeScripts"})
        cls, sep = ("<s>", "</s>") if kind in ("bpe", "unigram") else ("[CLS]", "[SEP]")
        one = [special(cls), text("A"), special(sep)]
        put(kind, "pair with one separator", post=template(one, one + [text("B"), special(sep)]))
        put(kind, "pair with two separators, type 1", post=template(one, one + [special(sep), text("B", 1), special(sep, 1)]))
        put(kind, "template B before A", post=template(one, [special(cls), text("B", 1), special(sep), text("A")]))
        put(kind, "template without the last", post=template(one[:2], one[:2] + [text("B", 1)]))
        put(kind, "template of a token of two ids", post=template([text("A"), special("two")], [text("A"), special("two", 1), text("B", 3)]))
        put(kind, "template A twice", "each text once", post=template([text("A"), text("A")], one + [text("B")]))
        put(kind, "BertProcessing", post={"type": "BertProcessing", "sep": [sep, IDS[sep][0]], "cls": [cls, IDS[cls][0]]})
        put(kind, "RobertaProcessing", post={**ROBERTA, "sep": [sep, IDS[sep][0]], "cls": [cls, IDS[cls][0]]})
        put(kind, "added id that does not fit", "added_tokens", add=[(9999, "<new>", {})])
    _bpe(put)
    _wordpiece(put)
    _unigram(put)
    return out


def _bpe(put) -> None:
    put("bpe", "add_prefix_space", pre_tokenizer={**BYTE_LEVEL, "add_prefix_space": True}, post={**ROBERTA, "add_prefix_space": True})
    put("bpe", "use_regex false", pre_tokenizer={**BYTE_LEVEL, "use_regex": False})
    put("bpe", "use_regex false, add_prefix_space", pre_tokenizer={**BYTE_LEVEL, "use_regex": False, "add_prefix_space": True})
    put("bpe", "trim_offsets false", post={**ROBERTA, "trim_offsets": False})
    put("bpe", "post-processors ByteLevel, template", post={"type": "Sequence", "processors": [{**BYTE_LEVEL, "trim_offsets": False}, ANGLE_TEMPLATE]})
    put("bpe", "Digits, ByteLevel", pre_tokenizer=seq({"type": "Digits", "individual_digits": True}, BYTE_LEVEL))
    put("bpe", "Digits in runs, ByteLevel with prefix", pre_tokenizer=seq({"type": "Digits", "individual_digits": False}, {**BYTE_LEVEL, "add_prefix_space": True}))
    put("bpe", "Whitespace, ByteLevel", pre_tokenizer=seq({"type": "Whitespace"}, {**BYTE_LEVEL, "use_regex": False}))
    put("bpe", "WhitespaceSplit, ByteLevel with prefix", pre_tokenizer=seq(SPLIT, {**BYTE_LEVEL, "add_prefix_space": True}))
    put("bpe", "Punctuation, ByteLevel", pre_tokenizer=seq({"type": "Punctuation", "behavior": "Isolated"}, {**BYTE_LEVEL, "use_regex": False}))
    put("bpe", "unk_token", model={"unk_token": "<unk>", "fuse_unk": True})
    put("bpe", "no pre-tokenizer", "byte-level", pre_tokenizer=None)
    put("bpe", "Whitespace alone", "byte-level", pre_tokenizer={"type": "Whitespace"})
    put("bpe", "ByteLevel, Digits", "byte-level", pre_tokenizer=seq(BYTE_LEVEL, {"type": "Digits", "individual_digits": True}))
    put("bpe", "dropout", "model.dropout", model={"dropout": 0.5})
    put("bpe", "ignore_merges", model={"ignore_merges": True}, fewer_merges=True)
    put("bpe", "Llama 3's pattern", pre_tokenizer=seq(LLAMA_3, {**BYTE_LEVEL, "use_regex": False}))
    put("bpe", "Llama 3's pattern, ignore_merges", pre_tokenizer=seq(LLAMA_3, {**BYTE_LEVEL, "use_regex": False}), model={"ignore_merges": True},
        fewer_merges=True)
    put("bpe", "end_of_word_suffix", "model.end_of_word_suffix", model={"end_of_word_suffix": "</w>"})


def _wordpiece(put) -> None:
    for kind in ("uncased", "cased"):
        for key in ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase"):
            for value in (True, False):
                put(kind, f"{key} {str(value).lower()}", normalizer={**BERT_NORM, "lowercase": kind == "uncased", key: value})
        put(kind, "all BertNormalizer's flags off", normalizer={"type": "BertNormalizer", "clean_text": False, "handle_chinese_chars": False,
                                                                "strip_accents": False, "lowercase": False})
        for n in (0, 1, 5, 101, 1000):
            put(kind, f"max_input_chars_per_word {n}", model={"max_input_chars_per_word": n})
        for label, steps in (("WhitespaceSplit", [SPLIT]), ("Whitespace", [{"type": "Whitespace"}]),
                             ("Whitespace, Digits", [{"type": "Whitespace"}, {"type": "Digits", "individual_digits": True}]),
                             ("BertPreTokenizer, Digits in runs", [{"type": "BertPreTokenizer"}, {"type": "Digits", "individual_digits": False}]),
                             ("Digits, WhitespaceSplit, Punctuation", [{"type": "Digits", "individual_digits": True}, SPLIT,
                                                                       {"type": "Punctuation", "behavior": "Isolated"}])):
            put(kind, label, pre_tokenizer=seq(*steps))
        put(kind, "no pre-tokenizer", pre_tokenizer=None)
        put(kind, "BertNormalizer, NFC", normalizer=seq({**BERT_NORM, "strip_accents": False}, {"type": "NFC"}))
        put(kind, "Punctuation removed", "behavior", pre_tokenizer={"type": "Punctuation", "behavior": "Removed"})
        put(kind, "Metaspace", "Metaspace", pre_tokenizer=meta())
        put(kind, "ByteLevel", "ByteLevel", pre_tokenizer=BYTE_LEVEL)
        put(kind, "other prefix", "continuing_subword_prefix", model={"continuing_subword_prefix": "@@"})


def _unigram(put) -> None:
    spaces = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
    precompiled = base("unigram")["normalizer"]
    for scheme in ("always", "first", "never"):
        for split in (True, False):
            label = f"Metaspace {scheme}" + ("" if split else " not split")
            put("unigram", label, pre_tokenizer=meta(prepend_scheme=scheme, split=split))
            put("unigram", "WhitespaceSplit, " + label, pre_tokenizer=seq(SPLIT, meta(prepend_scheme=scheme, split=split)))
    put("unigram", "Strip, Metaspace first", normalizer=seq(precompiled, {"type": "Strip", "strip_left": True, "strip_right": True}),
        pre_tokenizer=meta(prepend_scheme="first"))
    put("unigram", "Replace of spaces, Metaspace", normalizer=seq(precompiled, spaces), pre_tokenizer=meta())
    put("unigram", "Replace of spaces by U+2581", normalizer=seq(precompiled, {**spaces, "content": META}), pre_tokenizer=meta())
    put("unigram", "Lowercase, Precompiled", normalizer=seq({"type": "Lowercase"}, precompiled))
    put("unigram", "Metaspace, Digits", pre_tokenizer=seq(meta(), {"type": "Digits", "individual_digits": True}))
    put("unigram", "Whitespace, Metaspace", pre_tokenizer=seq({"type": "Whitespace"}, meta()))
    put("unigram", "no pre-tokenizer", pre_tokenizer=None)
    put("unigram", "scores beyond float", model={"vocab": [[s, score * 1.0000000123] for s, score in base("unigram")["model"]["vocab"]]})
    put("unigram", "byte_fallback", "model.byte_fallback", model={"byte_fallback": True})
    put("unigram", "other replacement", "replacement", pre_tokenizer=meta(replacement="_"))
    put("unigram", "Precompiled twice", "second Precompiled", normalizer=seq(precompiled, precompiled))


VARIANTS = _variants()

EXTRA = """the fox<new>the <new> fox|a<New>b <New> c|  <new>  x|fox foxes firefox fox_ fox, FOX Fox|the fox\\tfox\\u3000 fox|The The. Theses aThe The_
a b a  b a b c|ＦＯＸ fox ｆｏｘ Fox|quick Quick QUICK quickly|LAZY lazy LAZYdog|The quick <mask> fox <mask>  jumps|the [MASK]  fox [mask]|<mask>fox
<MASK> <Mask>|  leading and trailing  |\\u3000wide\\u3000|tab\\tand\\nline|a1b22c333 4.5 ½ Ⅷ ٣|x-y_z a,b;c|don't stop|e\\u0301le\\u0300ve ÉLÈVE|İstanbul ΣΑΣ ẞ
ﬁne ½ ² ™ ﷺ|가각 \\u1100\\u1161\\u11a8|क्षि|Ω Å K|\\u0b47\\u0b3e \\u09c7\\u09be|a\\u0323\\u0307\\u0301 q\\u0307\\u0323|\\u0344 \\u0f73 \\u2126|▁a ▁▁b a▁|Ⓐⓑ 🄰b _x_ a\\u200db
hello   world    again|\\x00a\\x01b\\x7f|a\\x85b\\u2028c|中文abc中|x中|word1234567890word|http://a.b/c?d=e#f|😀fox👍🏽|[CLS] [SEP] [UNK] [PAD]|<s> </s> <unk> <pad>
aaaaa bbbbbb|supercalifragilistic|é é|a.b.c. ... --|"quoted" (paren) [brack]|\\u00a0nbsp\\u00a0|  |\\u0301|fox|##ing ##in|\\x01the\\x01 fox|\\x01 fox|a <s> b|The\\u0301 fox\\u0301|foxThe|x The y|Theé|#fox|##|\\ufeff fox|fox <new>|tHE fOX jUMPS""".replace("\n", "|")


def extra_strings() -> list:
    named = {"\\t": "\t", "\\n": "\n"}
    return [re.sub(r"\\u(....)|\\x(..)|\\[tn]", lambda m: named.get(m[0]) or chr(int(m[1] or m[2], 16)), s) for s in EXTRA.split("|")]


def all_cases() -> list:
    return read_cases("inputs.txt") + read_cases("variants.txt")


def to_json(name: str) -> str:
    return json.dumps(variant(name), ensure_ascii=False)
