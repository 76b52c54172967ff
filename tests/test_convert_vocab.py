"""Tokenizers: every source a folder can have gives the tokens, types, scores and flags the runtime expects."""
from __future__ import annotations

import base64
import json
import struct
import unittest

from convert_helpers import FolderTest, edit_json

NORMAL, UNKNOWN, CONTROL, USER, UNUSED = 1, 2, 3, 4, 5


def varint(n: int) -> bytes:
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def field(number: int, value) -> bytes:
    """One protobuf field: int, float or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def sentencepiece_model(pieces: list, charsmap: bytes, model_type: int = 1) -> bytes:
    body = b"".join(field(1, field(1, text.encode()) + field(2, score) + (field(3, kind) if kind != 1 else b"")) for text, score, kind in pieces)
    return body + field(2, field(3, model_type) + field(4, 8000)) + field(3, field(1, b"nmt_nfkc") + field(2, charsmap) + field(3, 1))


class Vocab(FolderTest):
    def tokenizer(self, meta: dict) -> dict:
        return {k: v for k, v in meta.items() if "tokenizer." in k}

    def test_older_files_give_the_same(self):
        for family in ("roberta", "bert"):
            self.make(family, "none")
            expected = self.tokenizer(self.convert()[0])
            (self.folder / "tokenizer.json").unlink()
            self.assertEqual(self.tokenizer(self.convert()[0]), expected)

    def test_bpe(self):
        self.make("roberta", "none")
        meta = self.convert()[0]
        tokens, types = meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.token_type"]
        self.assertEqual(tokens[:4] + tokens[-1:], ["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
        self.assertEqual(types[:5] + types[-2:], [CONTROL, CONTROL, CONTROL, UNKNOWN, NORMAL, NORMAL, CONTROL])
        self.assertEqual(meta["tokenizer.ggml.merges"][:2], ["\u0120 e", "\u0120 t"])
        self.assertEqual(meta["mra.tokenizer.split"], ["byte_words"])
        self.assertNotIn("mra.tokenizer.normalize", meta)
        flags = dict(zip(meta["mra.tokenizer.added.ids"], meta["mra.tokenizer.added.flags"]))
        self.assertEqual(flags, {0: 16, 1: 16, 2: 16, 3: 16, 279: 17})

    def test_merges_as_pairs(self):
        self.make("roberta", "none")
        expected = self.convert()[0]["tokenizer.ggml.merges"]
        path = self.folder / "tokenizer.json"
        model = json.loads(path.read_text())["model"]
        edit_json(path, model={**model, "merges": [m.split(" ") for m in model["merges"]]})
        self.assertEqual(self.convert()[0]["tokenizer.ggml.merges"], expected)

    def test_wordpiece(self):
        self.make("bert", "none")
        meta = self.convert()[0]
        tokens = meta["tokenizer.ggml.tokens"]
        self.assertEqual(tokens[:6], ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "\u2581e"])
        self.assertIn("e", tokens)  # was ##e
        self.assertFalse([t for t in tokens if t.startswith("##")])
        self.assertEqual(meta["tokenizer.ggml.token_type"][:6], [CONTROL, UNKNOWN, CONTROL, CONTROL, CONTROL, NORMAL])
        self.assertEqual(meta["mra.tokenizer.normalize"], ["clean", "cjk", "nfd", "strip_mn", "lowercase"])
        self.assertEqual(meta["mra.tokenizer.split"], ["bert"])
        self.assertEqual(meta["mra.tokenizer.unknown_id"], 1)
        self.assertEqual(meta["mra.tokenizer.max_word_chars"], 100)

    def test_cased_wordpiece(self):
        self.make("bert", "none")
        normalizer = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": False, "strip_accents": None, "lowercase": False}
        edit_json(self.folder / "tokenizer.json", normalizer=normalizer)
        self.assertEqual(self.convert()[0]["mra.tokenizer.normalize"], ["clean"])
        edit_json(self.folder / "tokenizer.json", normalizer={**normalizer, "strip_accents": True})
        self.assertEqual(self.convert()[0]["mra.tokenizer.normalize"], ["clean", "nfd", "strip_mn"])
        (self.folder / "tokenizer.json").unlink()
        edit_json(self.folder / "tokenizer_config.json", do_lower_case=False)
        self.assertEqual(self.convert()[0]["mra.tokenizer.normalize"], ["clean", "cjk"])

    def test_unigram(self):
        self.make("xlm-roberta", "none")
        charsmap = bytes(range(200))
        precompiled = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()}
        replace = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
        edit_json(self.folder / "tokenizer.json", normalizer={"type": "Sequence", "normalizers": [precompiled, replace]})
        meta = self.convert()[0]
        self.assertEqual(bytes(meta["tokenizer.ggml.precompiled_charsmap"]), charsmap)
        self.assertEqual(meta["tokenizer.ggml.tokens"][4:6], ["\u2581e", "\u2581t"])
        self.assertEqual(meta["tokenizer.ggml.scores"][:6], [0, 0, 0, 0, -6.0, -6.015625])
        for key in ("tokenizer.ggml.add_space_prefix", "tokenizer.ggml.remove_extra_whitespaces"):
            self.assertIs(meta[key], True)
        self.assertEqual(meta["mra.tokenizer.normalize"], ["charsmap", "spaces"])
        self.assertEqual(meta["mra.tokenizer.split"], ["whitespace", "meta_always"])

    def test_scores_that_are_no_floats(self):
        self.make("xlm-roberta", "none")
        model = json.loads((self.folder / "tokenizer.json").read_text())["model"]
        for score in (1e300, -1e39, float("inf"), float("nan")):
            model["vocab"][7][1] = score
            edit_json(self.folder / "tokenizer.json", model=model)
            self.assert_refused("the score of token 7 is", str(score))

    def test_sentencepiece_file(self):
        letters = [("\u2581" + chr(97 + i), -float(i), 1) for i in range(20)]
        pieces = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)] + letters
        layouts = {
            "xlm-roberta": ["<s>", "<pad>", "</s>", "<unk>", "\u2581a"],
            "camembert": ["<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED", "<s>", "</s>", "\u2581a"],
        }
        for family, head in layouts.items():
            with self.subTest(family=family):
                self.make(family, "none")
                (self.folder / "tokenizer.json").unlink()
                (self.folder / "tokenizer_config.json").unlink()
                (self.folder / "sentencepiece.bpe.model").write_bytes(sentencepiece_model(pieces, b"map\x00s"))
                meta = self.convert()[0]
                tokens, scores = meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.scores"]
                self.assertEqual(tokens[:len(head)], head)
                at = tokens.index("\u2581c")
                self.assertEqual((scores[at], meta["tokenizer.ggml.token_type"][at]), (-2.0, NORMAL))
                self.assertEqual(meta["tokenizer.ggml.mask_token_id"], len(head) + 19)
                self.assertEqual(meta["tokenizer.ggml.bos_token_id"], 0 if family == "xlm-roberta" else 5)
                self.assertEqual(bytes(meta["tokenizer.ggml.precompiled_charsmap"]), b"map\x00s")
                self.assertEqual(tokens[-1], "[PAD279]")  # ids nobody uses
                self.assertEqual(meta["tokenizer.ggml.token_type"][-1], UNUSED)

    def test_added_tokens(self):
        self.make("roberta", "none")
        path = self.folder / "tokenizer.json"
        data = json.loads(path.read_text())
        del data["model"]["vocab"]["<mask>"]
        data["added_tokens"] = data["added_tokens"][:4]
        new = {"id": 279, "content": "<user>", "single_word": True, "lstrip": False, "rstrip": True, "normalized": True, "special": False}
        edit_json(path, model=data["model"], added_tokens=data["added_tokens"] + [new])
        meta = self.convert()[0]
        self.assertEqual((meta["tokenizer.ggml.tokens"][279], meta["tokenizer.ggml.token_type"][279]), ("<user>", USER))
        self.assertEqual(dict(zip(meta["mra.tokenizer.added.ids"], meta["mra.tokenizer.added.flags"]))[279], 2 | 4 | 8 | 32)

    def test_unicode_line_breaks_in_vocab_txt(self):
        self.make("bert", "none")
        (self.folder / "tokenizer.json").unlink()
        lines = (self.folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
        lines[100], lines[101] = "\u2028", "\x85"
        (self.folder / "vocab.txt").write_text("\n".join(lines), encoding="utf-8", newline="")
        self.assertEqual(self.convert()[0]["tokenizer.ggml.tokens"][100:102], ["\u2581\u2028", "\u2581\x85"])

    def test_what_the_runtime_lacks_is_refused(self):
        cases = (
            ("roberta", {"normalizer": {"type": "NFC", "new": 1}}, "normalizer.new = 1 is not supported"),
            ("roberta", {"pre_tokenizer": {"type": "Whitespace"}}, "pre_tokenizer: BPE without byte-level"),
            ("bert", {"pre_tokenizer": {"type": "Punctuation", "behavior": "Removed"}}, "pre_tokenizer.behavior = 'Removed'"),
            ("bert", {"later": {"x": 1}}, "later = {'x': 1} is not supported"),
            ("bert", {"version": "2.0"}, "version = '2.0'"),
            ("xlm-roberta", {"normalizer": {"type": "Replace", "pattern": {"String": "a"}, "content": "b"}}, "normalizer Replace"),
            ("xlm-roberta", {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "?"}}, "precompiled_charsmap"),
            ("bert", {"model": {"type": "WordLevel", "vocab": {}}}, "tokenizer model 'WordLevel'"),
            ("bert", {"model": {"type": "WordPiece"}}, "unexpected content"),
            ("bert", {"post_processor": {"type": "TemplateProcessing", "single": [], "pair": []}}, "template"),
        )
        for family, change, message in cases:
            with self.subTest(message):
                self.make(family, "none")
                edit_json(self.folder / "tokenizer.json", **change)
                self.assert_refused("tokenizer.json", message)

    def test_bad_files(self):
        self.make("bert", "none")
        (self.folder / "tokenizer.json").unlink()
        (self.folder / "vocab.txt").write_text("\n".join(f"w{i}" for i in range(280)))
        self.assert_refused("no unk token '[UNK]'")
        (self.folder / "vocab.txt").write_bytes(b"\xff\xfe")
        self.assert_refused("vocab.txt", "UTF-8")
        (self.folder / "vocab.txt").unlink()
        self.assert_refused("no tokenizer")
        for data in (b"\x0a\xff", b"not protobuf", b"", b"\x08\x01", field(1, field(1, 5)), field(1, field(2, 5)),
                     field(1, field(1, b"a")) + field(3, field(2, 2**60)), field(1, b"\x0b"), b"\xff" * 20):
            (self.folder / "sentencepiece.bpe.model").write_bytes(data)
            self.assert_refused("not a sentencepiece model")
        (self.folder / "sentencepiece.bpe.model").write_bytes(sentencepiece_model([("<unk>", 0.0, 2)], b"", model_type=2))
        self.assert_refused("only unigram")

    def test_more_tokens_than_embeddings(self):
        self.make("roberta", "none")
        entry = {"id": 280, "content": "<x>", "special": True}
        edit_json(self.folder / "tokenizer.json", added_tokens=json.loads((self.folder / "tokenizer.json").read_text())["added_tokens"] + [entry])
        self.assert_refused("ids go up to 280", "280 embeddings")


if __name__ == "__main__":
    unittest.main()
