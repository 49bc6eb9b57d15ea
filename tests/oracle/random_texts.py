"""Random texts that tokenizers read in different ways: scripts, marks, spaces, digits, code, parts of a vocabulary."""
import unicodedata

# Where characters of different behaviour are: planes, scripts, marks, spaces, digits, jamo, emoji, private use.
RANGES = [(0x00, 0x20), (0x20, 0x7F), (0x7F, 0x100), (0x100, 0x250), (0x300, 0x370), (0x370, 0x530), (0x590, 0x700),
          (0x900, 0xE00), (0xE00, 0xF00), (0x1100, 0x1200), (0x1E00, 0x2000), (0x2000, 0x2070), (0x2070, 0x2400),
          (0x2500, 0x2C00), (0x3000, 0x3100), (0x4E00, 0x9FFF), (0xAC00, 0xD7A4), (0xE000, 0xF900), (0xF900, 0xFB50),
          (0xFE00, 0x10000), (0x10000, 0x11000), (0x1D400, 0x1D800), (0x1F000, 0x1FB00), (0x20000, 0x2A6E0),
          (0x30000, 0x31350), (0xE0000, 0xE01F0), (0xF0000, 0xF0100), (0x100000, 0x10FFFF)]
SPACES = [" ", " ", " ", "\n", "\n", "\t", "\r\n", "\r", "\x0b", "\x0c", "\x85", "\xa0", "\u2003", "\u2028", "\u3000",
          "\u180e", "\u200b", "\ufeff", "\u2581"]
MARKS = ["\u0301", "\u0323", "\u0327", "\u0345", "\u05b0", "\u0e38", "\u094d", "\u3099", "\u20d0", "\U0001d165", "\u034f"]
WORDS = ["the", "Hello", "WORLD", "don't", "I'LL", "we've", "it\u2019s", "stra\u00dfe", "na\u00efve", "\u4f60\u597d",
         "\u0440\u0443\u0441\u0441\u043a\u0438\u0439", "\u0645\u0631\u062d\u0628\u0627", "\u0926\u0947\u0935",
         "\ud55c\uad6d", "\u0e44\u0e17\u0e22", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea",
         "\u01c5", "\u0130", "\u017f", "\ufb01", "x\u00b2", "<0x0A>", "<unk>"]
CODE = ["def f(x):\n    return x + 1\n", "if (a->b != 0x1F) { i++; }", "std::vector<int> v{1,2,3};", "a\t=\tb;\r\n",
        "https://example.org/a?b=c&d=%20#e", "{\"k\": [1, null, -2.5e-7]}", "// ----------\n", "\\n\\t\\u00e9", "$x_1^{2}$",
        "SELECT * FROM t WHERE a = 'b''c';", "    " * 5 + "pass", "```python\n", "#include <a.h>\n\n\n", "__init__", "...!?"]


def piece(rng, vocabulary, added):
    kind = rng.randrange(11)
    if kind == 0:
        return rng.choice(SPACES) * rng.choice([1, 1, 2, 3, 4, 7, 16, 33]) + rng.choice(SPACES)
    if kind == 1:
        return "".join(rng.choice("0123456789\u0663\u00bd\uff11") for _ in range(rng.randint(1, 12)))
    if kind == 2:
        low, high = rng.choice(RANGES)
        return "".join(chr(rng.randrange(low, high)) for _ in range(rng.randint(1, 6)))
    if kind == 3:
        return rng.choice("aeo\u0431\u05d0\u1100\uac00") + "".join(rng.sample(MARKS, rng.randint(1, 4)))
    if kind == 4:
        return rng.choice(CODE)
    if kind == 5 and added:
        return rng.choice(added)
    if kind == 6 and added:  # something like an added token
        content = rng.choice(added)
        at = rng.randint(0, len(content))
        return rng.choice([content[:at], content[at:], content[:at] + " " + content[at:], content.upper(),
                           content[:at] + content, "<" + content, unicodedata.normalize("NFD", content)])
    if kind == 7:
        return "".join(rng.choice(vocabulary) for _ in range(rng.randint(1, 5)))
    if kind == 8:
        return rng.choice("ab1 ,.!-\n\u4f60") * rng.choice([2, 3, 5, 8, 40])
    return rng.choice(["", " ", " "]) + rng.choice(WORDS)


def random_text(rng, vocabulary, added):
    return "".join(piece(rng, vocabulary, added) for _ in range(rng.choice([1, 2, 3, 5, 8, 20])))
