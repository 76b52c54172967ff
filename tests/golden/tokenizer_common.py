"""Reference tokenizers (Hugging Face `tokenizers`) and the files the C tests read; see ../tokenizer-file.h."""
import codecs
import re
import struct
import unicodedata

from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors

NORMAL, UNKNOWN, CONTROL, USER, UNUSED = 1, 2, 3, 4, 5
META = "\u2581"
ADD_SPECIAL, PLAIN = 1, 2


class Vocab:
    """What struct mra_vocab holds: tokens are (string as GGUF stores it, score, type)."""

    def __init__(self, kind, tokens, merges=(), charsmap=b"", flags=(), **ids):
        self.kind, self.tokens, self.merges, self.charsmap, self.flags, self.ids = kind, tokens, merges, charsmap, flags, ids

    def write(self, path):
        lines = [f"kind\t{self.kind}"] + [f"flag\t{f}" for f in self.flags] + [f"id\t{k}\t{v}" for k, v in self.ids.items()]
        lines += [f"token\t{t}\t{score:.9g}\t{escape(s)}" for s, score, t in self.tokens]
        lines += [f"merge\t{escape(m)}" for m in self.merges]
        lines += [f"charsmap\t{escape(self.charsmap[i:i + 48])}" for i in range(0, len(self.charsmap), 48)]
        with open(path, "w", newline="\n") as f:
            f.write("\n".join(lines) + "\n")

    @staticmethod
    def read(path):
        v = Vocab("", [], merges=[], flags=[])
        with open(path, newline="\n") as f:
            for key, *rest in (line.rstrip("\n").split("\t") for line in f):
                if key == "kind":
                    v.kind = rest[0]
                elif key == "flag":
                    v.flags.append(rest[0])
                elif key == "id":
                    v.ids[rest[0]] = int(rest[1])
                elif key == "token":
                    v.tokens.append((unescape(rest[2]).decode(), float(rest[1]), int(rest[0])))
                elif key == "merge":
                    v.merges.append(unescape(rest[0]).decode())
                elif key == "charsmap":
                    v.charsmap += unescape(rest[0])
        return v

    def reference(self):
        return {"bpe": roberta, "wordpiece": bert, "unigram": xlm_roberta}[self.kind](self)

    def name(self, key):
        return self.tokens[self.ids[key]][0]


def escape(s):
    data = s.encode() if isinstance(s, str) else s
    return "".join(chr(b) if 0x21 <= b <= 0x7E and b != 0x5C else f"\\x{b:02X}" for b in data)


def unescape(s):
    return re.sub(r"\\x(..)", lambda m: chr(int(m[1], 16)), s).encode("latin-1")


def add_special(tok, vocab, lstrip):
    for i, (s, _, t) in enumerate(vocab.tokens):
        if t in (UNKNOWN, CONTROL) or i in vocab.ids.values():
            tok.add_special_tokens([AddedToken(s, lstrip=lstrip and i == vocab.ids.get("mask"), normalized=False, special=True)])


def roberta(v):
    tok = Tokenizer(models.BPE(vocab={s: i for i, (s, _, _) in enumerate(v.tokens)}, merges=[tuple(m.split(" ")) for m in v.merges]))
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.post_processor = processors.RobertaProcessing(sep=(v.name("eos"), v.ids["eos"]), cls=(v.name("bos"), v.ids["bos"]),
                                                      trim_offsets=True, add_prefix_space=False)
    add_special(tok, v, lstrip=True)
    return tok


def bert_spelling(s, token_type):
    """GGUF's spelling -> vocab.txt's"""
    if token_type == CONTROL or (s.startswith("[") and s.endswith("]")):
        return s
    return s[1:] if s.startswith(META) else "##" + s


def bert(v):
    lower = "lowercase" in v.flags
    tok = Tokenizer(models.WordPiece(vocab={bert_spelling(s, t): i for i, (s, _, t) in enumerate(v.tokens)},
                                     unk_token=v.name("unk"), max_input_chars_per_word=100))
    tok.normalizer = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars="split_cjk" in v.flags,
                                                strip_accents="strip_accents" in v.flags, lowercase=lower)
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    cls, sep = v.name("cls"), v.name("sep")
    tok.post_processor = processors.TemplateProcessing(single=f"{cls} $A {sep}", pair=f"{cls} $A {sep} $B:1 {sep}:1",
                                                       special_tokens=[(cls, v.ids["cls"]), (sep, v.ids["sep"])])
    add_special(tok, v, lstrip=False)
    return tok


def xlm_roberta(v):
    used = max(i for i, t in enumerate(v.tokens) if t[2] != UNUSED) + 1  # converters pad vocabularies at the end
    tok = Tokenizer(models.Unigram([(s, score) for s, score, _ in v.tokens[:used]], unk_id=v.ids["unk"], byte_fallback=False))
    tok.normalizer = normalizers.Precompiled(v.charsmap)
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(),
                                                 pre_tokenizers.Metaspace(replacement=META, prepend_scheme="always")])
    bos, eos = v.name("bos"), v.name("eos")
    tok.post_processor = processors.TemplateProcessing(single=f"{bos} $A {eos}", pair=f"{bos} $A {eos} {eos} $B {eos}",
                                                       special_tokens=[(bos, v.ids["bos"]), (eos, v.ids["eos"])])
    add_special(tok, v, lstrip=True)
    return tok


_bad = []


def _record(e):
    _bad.append((e.start, e.end))
    return "\ufffd", e.end


codecs.register_error("record", _record)


def decode(data):
    """bytes -> text as errors="replace" decodes it, and the byte offset of each character, with that of the end."""
    _bad.clear()
    text = data.decode("utf-8", "record")
    assert text == data.decode("utf-8", "replace")
    bad, offsets, at = dict(_bad), [], 0
    for c in text:
        offsets.append(at)
        at = bad[at] if at in bad else at + len(c.encode())
    assert at == len(data)
    return text, offsets + [at]


def expect(enc, maps):
    """An encoding as [(id, start, end)] in bytes."""
    out = []
    for i, (start, end), seq in zip(enc.ids, enc.offsets, enc.sequence_ids):
        if seq is None:
            out.append((i, 0, 0))
        else:
            out.append((i, maps[seq][start], maps[seq][end]))
    return out


def encode(tok, a, b, flags):
    ta, ma = decode(a)
    tb, mb = decode(b) if b is not None else (None, None)
    enc = tok.encode(ta, tb, add_special_tokens=bool(flags & ADD_SPECIAL))
    return expect(enc, (ma, mb))


def offsets_comparable(tok, vocab, text):
    """Whether the reference's offsets are those of the characters a token was made of. They are not where
    - unigram: the charsmap drops a character at the start of a text, behind a special token, or behind a character it replaced by
      a longer string: the reference then shifts the offsets of what follows (or of the character before);
    - WordPiece: NFD reorders a spacing mark: the reference gives it the place of another mark.
    """
    if vocab.kind == "wordpiece" and "strip_accents" in vocab.flags:
        return not any(unicodedata.combining(c) and unicodedata.category(c) != "Mn" for c in unicodedata.normalize("NFD", text))
    if vocab.kind != "unigram":
        return True
    size = lambda c: len(tok.normalizer.normalize_str(c))
    kept = ""
    for c in text:
        if size(c):
            kept += c
        # a mark may have been replaced together with the character before it
        elif kept == "" or kept[-1] in ">]" or any(size(k) > 1 for k in kept[-2:]):
            return False
    return True


def pack(a, b, flags):
    out = struct.pack("<ii", flags, len(a)) + a
    return out + (struct.pack("<i", -1) if b is None else struct.pack("<i", len(b)) + b)
