"""Writes tokenizer/: small vocabularies, hard inputs, and what Hugging Face's tokenizers make of them.

    pip install tokenizers==0.22.1
    python make_tokenizers.py [--train]

Without --train the vocabularies stay and only inputs and expectations are written anew (training does not repeat exactly). bpe is
configured as roberta-base, uncased and cased as bert-base-*, unigram as xlm-roberta-base, with a charsmap built here from NFKC.
"""
import argparse
import json
import os
import random
import struct
import unicodedata

import tokenizers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

import tokenizer_common as common
from tokenizer_common import ADD_SPECIAL, CONTROL, META, NORMAL, UNKNOWN, Vocab
from tokenizer_strings import Generator, fragments

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizer")

CORPUS = """The quick brown fox jumps over the lazy dog. Attention of one head is a sum of values, weighted by how well a key fits
the query; the cost of all pairs grows with the square of the length. We don't need all of them: we'll keep the best, and the rest
is pooled. I've seen 1,234 words in 56 lines; it's 3.14159 times as long, isn't it? They're here, we're there, she'd go, I'm off.
Der Großvater aß süße Äpfel auf der Straße. Les élèves français ont reçu des cœurs à Noël. El niño pequeño comió piña. İstanbul'da
ışık ve gölge. Жили-были дед да баба, и была у них курочка ряба. Ὁ ἄνθρωπος φύσει πολιτικὸν ζῷον. 中文分词没有空格，所以每个字都是一个词。
日本語の文章にはひらがなとカタカナと漢字があります。한국어는 띄어쓰기가 있습니다. ภาษาไทยเขียนติดกันโดยไม่เว้นวรรค हिन्दी में लिखा हुआ वाक्य है।
العربية تُكتب من اليمين إلى اليسار. עברית נכתבת מימין לשמאל. Tiếng Việt có nhiều dấu. Full-width ＡＢＣ １２３ and ligatures ﬁ ﬂ ﬃ ½ ² ™ ℃.
Emoji 😀 👍🏽 👨‍👩‍👧‍👦 🇩🇪 ❤️ and symbols © ® € ☃ → ∑. def f(x): return x ** 2 + 1  # code, with_underscores and CamelCase""".replace("\n", " ")

CASES = [
    "", " ", "   ", "\n", " \n\t ", "a", "Hello world", " Hello  world ", "Hello\tworld\n\nfoo", "don't we'll I'VE 's'S ''s they're'd",
    "the the  the   the", "a\xa0b", "a\x85b", "a\u2028b\u2029c", "a\u200bb\u200dc", "\ufeffthe", "the\ufeff", "a\x00b", "\x01\x02the",
    "the\x7f", "x\xad\u2060y", "1234567890", "3.14159,26", "½²①Ⅷ٣१२", "e\u0301 é E\u0301 É", "a\u0323\u0307 a\u0307\u0323", "İıIi i\u0307",
    "Straße STRASSE ẞ", "ﬁne oﬃce ĳs", "ＡＢＣ　１２３！", "ｶﾞｷﾞ", "日本語の文章", "中文,中文。𠀀豈", "한국어 한국", "ภาษาไทย น้ำ",
    "العربية تُكتب", "مُحَمَّد ﷺ", "हिन्दी में क्ष", "Tiếng Việt", "😀👍🏽👨‍👩‍👧‍👦🏳️‍🌈🇩🇪🇫❤️1️⃣", "▁the ▁ ▁▁ a▁b", "Ġthe Ċ", "##ing x##y #",
    "\U0001d165\u0301\u302e x\u1b44", "K Å Ω ſ", "a\u0300\u0301\u0302\u0303b", "word" * 24, "word" * 25, "word" * 26, "é" * 101,
    "the " * 60, "a" * 300, "中" * 120, " " * 70 + "the", "\u0301" * 50, "q" * 99 + "é", "[CLS] the [SEP]", "<s>the</s>", "<s> <s>",
    "<mask>", "the <mask> fox", "the  \t\u3000<mask>fox", "<mask> <mask>\n<mask>", "  <mask>", "<mask>  ", "the<mask>the", "< mask>",
    "<mask", "<<mask>>", "<MASK>", "＜mask＞", "</s> <mask></s>", "[MASK]", "the [MASK] fox", "the[MASK][MASK]", "[MASK", "[mask]", "<unk> [UNK]",
    "<pad>[PAD]", "the <unk>☃ ☃<unk>", "☃☃☃", "the☃☃the ☃", "\ud7a3\ue000\U0010fffd", "\ufffd\ufffd a\ufffdb",
]
RAW = [b"\x80", b"a\xffb", b"\xc3", b"the \xc3 the", b"\xe2\x82", b"\xe2\x82the", b"\xf0\x9f\x98", b"\xf0\x9f\x98\x80\x80", b"\xc0\x80",
       b"\xe0\x80\x80", b"\xed\xa0\x80\xed\xb0\x80", b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80\x80", b"\xfe\xff\xfd", b"<mask\xff> \xff<mask>",
       b"the\xff \xfethe", b"\xc3\xa9\xc3", b"\xe4\xb8\xad\xe4\xb8", b"\xf1\x80\x80", b"\xf1\x80a"]
PAIRS = [("the fox", "the dog"), ("", ""), ("the", ""), ("", "the"), ("the <mask>", " <mask> fox"), ("the [MASK]", "[MASK] fox"),
         ("é\u0301", "中文"), (" the ", "\tfox\n")]


def double_array(rules):
    """{bytes: offset of its replacement} -> darts-clone units"""
    trie = {}
    for key, value in rules.items():
        node = trie
        for b in key:
            node = node.setdefault(b, {})
        node["value"] = value
    units, used = {0: 0}, {0}
    todo = [(0, trie)]
    while todo:
        at, node = todo.pop()
        labels = [b for b in node if b != "value"]
        wanted = labels + ([0] if "value" in node else [])
        base = 1
        while base in used or any(base ^ c in used for c in wanted):
            base += 1
        used.update([base] + [base ^ c for c in wanted])
        units[at] |= (at ^ base) << 10 | ("value" in node) << 8
        assert at ^ base < 1 << 21
        if "value" in node:
            units[base] = node["value"] | 1 << 31
        for b in labels:
            units[base ^ b] = b
            todo.append((base ^ b, node[b]))
    size = (max(max(units), max(used)) | 255) + 1
    return [units.get(i, 0) for i in range(size)]


def charsmap(texts):
    """SentencePiece's nmt_nfkc for the characters in the texts"""
    chars = {c for t in texts for c in t} - {"\0"}
    rules = {c: unicodedata.normalize("NFKC", c) for c in chars}
    rules.update({t[i:i + 2]: unicodedata.normalize("NFKC", t[i:i + 2]) for t in texts for i in range(len(t) - 1)
                  if unicodedata.combining(t[i + 1]) and not unicodedata.combining(t[i])})
    rules.update({chr(c): "" for c in list(range(1, 9)) + [0x0B, 0x0E, 0x1F, 0x7F, 0x8F, 0x9F]})
    rules.update({c: " " for c in "\t\n\x0c\r\x85\u1680\u200b\u200e\u200f\u2028\u2029\u2581\ufeff\ufffd" if c != META})
    text, keys = b"", {}
    for key, value in sorted(rules.items()):
        if key != value:
            keys[key.encode()] = len(text)
            text += value.encode() + b"\0"
    units = double_array(keys)
    return struct.pack(f"<I{len(units)}I", 4 * len(units), *units) + text


def train_bpe():
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.train_from_iterator([CORPUS] * 3, trainers.BpeTrainer(vocab_size=760, min_frequency=2, show_progress=False, special_tokens=special,
                                                              initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    model = json.loads(tok.to_str())["model"]
    tokens = [s for s, _ in sorted(model["vocab"].items(), key=lambda x: x[1])]
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    return Vocab("bpe", [(s, 0.0, CONTROL if s in special else NORMAL) for s in tokens], merges=merges, flags=("add_bos", "add_eos"),
                 bos=0, pad=1, eos=2, sep=2, mask=4)


def train_bert(lower):
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tok.normalizer = normalizers.BertNormalizer(lowercase=lower, strip_accents=lower)
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    text = [CORPUS] * 3 + ["e\u0301 a\u0301 \U0001d165 word wordword é"]
    tok.train_from_iterator(text, trainers.WordPieceTrainer(vocab_size=760, min_frequency=1, special_tokens=special, show_progress=False))
    tokens = [s for s, _ in sorted(tok.get_vocab(with_added_tokens=True).items(), key=lambda x: x[1])]
    spell = lambda s: s if s in special else s[2:] if s.startswith("##") else META + s
    flags = ("add_bos", "add_eos", "split_cjk") + (("lowercase", "strip_accents") if lower else ())
    return Vocab("wordpiece", [(spell(s), 0.0, CONTROL if s in special else NORMAL) for s in tokens], flags=flags,
                 pad=0, unk=1, cls=2, sep=3, mask=4)


def train_unigram():
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    rules = charsmap([CORPUS] + CASES + fragments())
    tok = Tokenizer(models.Unigram())
    tok.normalizer = normalizers.Precompiled(rules)
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")])
    tok.train_from_iterator([CORPUS] * 3 + CORPUS.split(), trainers.UnigramTrainer(vocab_size=620, show_progress=False, unk_token="<unk>",
                                                                                   special_tokens=special))
    tokens = [(s, round(score, 4), NORMAL) for s, score in json.loads(tok.to_str())["model"]["vocab"] if s not in special]
    head = [("<s>", 0.0, CONTROL), ("<pad>", 0.0, CONTROL), ("</s>", 0.0, CONTROL), ("<unk>", 0.0, UNKNOWN)]
    tokens = head + tokens + [("<mask>", 0.0, CONTROL)]
    mask = len(tokens) - 1
    tokens += [(f"[PAD{i}]", -10000.0, common.UNUSED) for i in range(mask + 1, mask + 4)]
    return Vocab("unigram", tokens, charsmap=rules, flags=("add_bos", "add_eos", "add_space_prefix", "remove_extra_whitespaces"),
                 bos=0, pad=1, eos=2, sep=2, unk=3, mask=mask)


TRAIN = {"bpe": train_bpe, "uncased": lambda: train_bert(True), "cased": lambda: train_bert(False), "unigram": train_unigram}


def inputs():
    out = [(t.encode("utf-8", "surrogatepass"), None, ADD_SPECIAL) for t in CASES] + [(t, None, 0) for t in RAW]
    out += [(a.encode(), b.encode(), flags) for a, b in PAIRS for flags in (0, ADD_SPECIAL)]
    gen = Generator(random.Random(7), ["<s>", "</s>", "<mask>", "<pad>", "[MASK]", "[SEP]"])
    return out + [gen.case(short=True) for _ in range(160)]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--train", action="store_true")
    args = ap.parse_args()
    assert tokenizers.__version__ == "0.22.1"
    os.makedirs(HERE, exist_ok=True)
    cases = inputs()
    with open(os.path.join(HERE, "inputs.txt"), "w", newline="\n") as f:
        for a, b, flags in cases:
            f.write(f"{flags}\t{common.escape(a)}" + ("" if b is None else f"\t{common.escape(b)}") + "\n")
    for name, train in TRAIN.items():
        path = os.path.join(HERE, f"{name}.vocab")
        if args.train:
            train().write(path)
        vocab = Vocab.read(path)
        tok = vocab.reference()
        with open(os.path.join(HERE, f"{name}.want"), "w", newline="\n") as f:
            for case in cases:
                want = common.encode(tok, *case)
                if not all(common.offsets_comparable(tok, vocab, common.decode(t)[0]) for t in case[:2] if t is not None):
                    want = [w[:1] for w in want]
                f.write(" ".join(":".join(map(str, w)) for w in want) + "\n")


if __name__ == "__main__":
    main()
