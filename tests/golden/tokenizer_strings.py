"""Random strings that tokenizers find hard."""
import unicodedata

from tokenizer_common import ADD_SPECIAL

# Code points where the tables of the reference (WordPiece: Unicode 8; BPE: 16) and utf8proc 2.8's (Unicode 15) disagree and
# Python 3.11's know the character: marks, punctuation and format characters assigned or reclassified after Unicode 8.
NEWER = """61D 7FD 890-891 898-89F 8CA-8E2 9FD-9FE A76 AFA-AFF B55 C04 C3C C77 C84 D00 D3B-D3C D81 EBA 166D 1734 180F 1885-1886 1ABF-1ACE
1B7D-1B7E 1DF6-1DFB 2E43-2E4F 2E52-2E5D A82C A8C5 A8FF A9BD 10D24-10D27 10EAB-10EAD 10F46-10F50 10F55-10F59 10F82-10F89 11070
11073-11074 110C2 110CD 111C9 111CF 1123E 1133B 11438-1143F 11442-11444 11446 1144B-1144F 1145A-1145B 1145D-1145E 11660-1166C
116B9 1182F-11837 11839-1183B 11938 1193B-1193C 1193E 11943-11946 119D4-119D7 119DA-119DB 119E0 119E2 11A01-11A0A 11A33-11A38
11A3B-11A47 11A51-11A56 11A59-11A5B 11A8A-11A96 11A98-11A9C 11A9E-11AA2 11C30-11C36 11C38-11C3D 11C3F 11C41-11C45 11C70-11C71
11C92-11CA7 11CAA-11CB0 11CB2-11CB3 11CB5-11CB6 11D31-11D36 11D3A 11D3C-11D3D 11D3F-11D45 11D47 11D90-11D91 11D95 11D97
11EF3-11EF4 11EF7-11EF8 11FFF 12FF1-12FF2 13430-13438 16E97-16E9A 16F4F 16FE2 16FE4 1CF00-1CF2D 1CF30-1CF46 1E000-1E006
1E008-1E018 1E01B-1E021 1E023-1E024 1E026-1E02A 1E130-1E136 1E2AE 1E2EC-1E2EF 1E944-1E94A 1E95E-1E95F"""

FRAGMENTS = """a|b|I|x|the|The|and|ing|ed|don't|we'll|I'VE|'s|'S|'re|'t|'lls|''|'|hello|world|Transformer|internationalization|ABC|aB
0|1|42|3.14159|1,000,000|2nd|½|²|Ⅷ|①|٣|१२|𝟘|.|,|!|?|...|…|-|--|—|_|__|#|##|@|$|€|%|&|*|(|)|[|]|{|}|<|>|/|\\|"|`|~|^|+|=|||:|;
é|e\u0301|ñ|n\u0303|ü|Ü|ß|ẞ|ﬁ|ﬃ|ĳ|ŉ|İ|ı|i\u0307|Ş|ğ|Σ|ς|ά|ᾳ|Ω|Ω|Å|Å|Ж|ё|Ё|й|и\u0306|ʼ|ª|º|ǆ|ǅ|Ǆ|\u0301|\u0301\u0327|a\u0323\u0307|q\u0307\u0323
中|文|中文字|日本語|ひらがな|カタカナ|ｶﾞ|パ|ハ\u309a|한국어|한|\u1112\u1161\u11ab|\u1100|𠀀|𪜀|豈|﨎|㍿|㌔|ｆｕｌｌ|ＷＩＤＥ|！|，|。|、|「|」|・|々|〇|〆
ไทย|ภาษา|น้ำ|ำ|ລາວ|ភាសា|မြန်မာ|हिन्दी|क्ष|ि|্|বাংলা|தமிழ்|తెలుగు|ಕನ್ನಡ|മലയാളം|සිංහල|བོད|ქართული|Ქ|Հայերեն|և|አማርኛ
עברית|שָׁלוֹם|العربية|مُحَمَّد|لا|ﷺ|ﻻ|۝|ـ|\u200f|\u200e|\u0600
😀|👍🏽|👨‍👩‍👧‍👦|🏳️‍🌈|🇩🇪|🇩🇪🇫|☃|☃️|❤️|©|®️|™|1️⃣|⌚|🧑🏿‍🚀|\U0001f3fb|\u200d|\ufe0f|\u20e3
 |  |   |\t|\n|\r|\r\n|\n\n| \n|\n |\x0b|\x0c|\x1c|\x1f|\x85|\xa0|\u1680|\u2003|\u2009|\u2028|\u2029|\u202f|\u205f|\u3000|\u180e
\x00|\x01|\x07|\x08|\x1b|\x7f|\x80|\x9f|\xad|\u034f|\u061c|\u200b|\u200c|\u2060|\u2066|\ufeff|\ufff9|\ufffc|\ufffd|\ufffe|\U0001d173|\U000e0001|\ue000|\U000f0000
▁|▁▁|▁the| ▁|Ġ|Ġthe|Ċ|##ing|\U0001d165|\U0001d15e|\u0b4d|\u1b44|\u302e|\u0f71\u0f72|\u0344|℃|㎏|ﬀ|ſ|K|ŀ|∕|⁄|𝐀|𝔘|ℌ|①②|ⅷ"""


def ranges(text):
    out = set()
    for first, _, last in (r.partition("-") for r in text.split()):
        out.update(range(int(first, 16), int(last or first, 16) + 1))
    return out


def fragments():
    out = []
    for line in FRAGMENTS.split("\n"):
        out += [f for f in line.split("|") if f] + (["|"] if "=|||" in line else [])
    return out


class Generator:
    def __init__(self, rng, specials):
        self.rng, self.fragments = rng, fragments()
        self.specials = list(specials) + ["<mask", "mask>", "[MASK", "< mask>", "<MASK>", "＜mask＞"]
        newer = ranges(NEWER)
        # what the Unicode tables of both sides know
        self.known = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000 and unicodedata.category(chr(c)) != "Cn"
                      and c not in newer]

    def piece(self):
        r = self.rng.random()
        if r < 0.62:
            return self.rng.choice(self.fragments).encode()
        if r < 0.80:
            return b" "
        if r < 0.86:
            return self.rng.choice(self.specials).encode()
        if r < 0.92:
            return chr(self.rng.choice(self.known)).encode()
        if r < 0.95:
            return chr(self.rng.randrange(0x20, 0x300)).encode()
        if r < 0.98:
            return bytes(self.rng.randrange(256) for _ in range(self.rng.randrange(1, 4)))
        return self.rng.choice(self.fragments).encode()[:-1]

    def text(self, short):
        n = self.rng.choice((1, 2, 3, 5, 8, 12) if short else (0, 1, 2, 3, 5, 8, 12, 20, 40))
        if not short and self.rng.random() < 0.02:
            return self.piece() * self.rng.randrange(50, 300)
        return b"".join(self.piece() for _ in range(n))

    def case(self, short=False):
        pair = self.rng.random() < 0.15
        return self.text(short), self.text(short) if pair else None, self.rng.choice((0, ADD_SPECIAL))
