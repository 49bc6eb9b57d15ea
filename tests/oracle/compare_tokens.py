"""Random texts through every tokenizer.json at hand: ids and decoded texts against the `tokenizers` package.

Each case is one text with each way to encode it (control tokens in the text parsed or not, with and without what the
tokenizer puts around a text), the text of its ids, and the text of random ids, whose bytes may be no characters.
"""
import json
import pathlib
import re
import tempfile
import unicodedata

import qinfer
import tokenizers
from oracle import FIXTURES, ROOT, model_files

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


class Subject:
    """A tokenizer.json in both libraries."""

    def __init__(self, title, path, config):
        self.title = title
        text = path.read_text(encoding="utf-8")
        self.parsing = tokenizers.Tokenizer.from_str(text)
        self.plain = tokenizers.Tokenizer.from_str(text)
        self.plain.encode_special_tokens = True
        parsed = json.loads(text)
        self.falls_back = '"ByteFallback"' in json.dumps(parsed["decoder"])
        self.added = [token["content"] for token in parsed["added_tokens"]]
        self.special = {token["content"] for token in parsed["added_tokens"] if token["special"]}
        self.n_ids = 1 + max(self.parsing.get_vocab().values())
        # With the characters that stand for bytes and spaces read back.
        vocabulary = [token.replace("\u0120", " ").replace("\u010a", "\n").replace("\u2581", " ")
                      for token in parsed["model"]["vocab"]]
        self.vocabulary = sorted(vocabulary)
        self.model = load_tokenizer(text, {**config, "vocab_size": self.n_ids})


def load_tokenizer(text, config):
    """A model of qinfer's that is nothing but a tokenizer."""
    for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
        config.pop(key, None)
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "config.json").write_text(json.dumps(config))
        pathlib.Path(folder, "tokenizer.json").write_text(text, encoding="utf-8")
        return qinfer.Model(folder, weights=False)


def subjects(comparison):
    config = json.loads((ROOT / "examples" / "models" / "tiny-chat" / "config.json").read_text())
    files = model_files("tokenizer.json")
    files += [(f"fixture {path.stem}", path) for path in sorted((FIXTURES / "tokenizers").glob("*.json"))]
    for title, path in files:
        try:
            yield Subject(title, path, config)
        except qinfer.QinferError as error:
            comparison.check(False, title, lambda: f"qinfer does not load it: {error}")


def has_broken_run(subject, ids):
    """Whether byte tokens ("<0xE9>") that follow each other, control tokens aside, are not whole characters."""
    names = [subject.parsing.id_to_token(token) for token in ids]
    run = b""
    for name in [*(name for name in names if name not in subject.special), ""]:
        byte = re.fullmatch("<0x([0-9A-F]{2})>", name)
        if byte:
            run += bytes.fromhex(byte[1])
            continue
        try:
            run.decode("utf-8")
        except UnicodeDecodeError:
            return True
        run = b""
    return False


def check_text(comparison, subject, text, where):
    for special in (False, True):
        for parse, oracle in ((True, subject.parsing), (False, subject.plain)):
            what = f"{where}, special {special}, parsed {parse}, of {ascii(text)[:300]}"
            theirs = oracle.encode(text, add_special_tokens=special).ids
            ours = subject.model.tokenize(text, special=special, parse_special=parse)
            comparison.same(ours, theirs, f"ids, {what}")
            if special and parse:
                comparison.same(subject.model.detokenize(theirs), oracle.decode(theirs), f"decoded, {what}")


def compare(comparison):
    everything = list(subjects(comparison))
    print(f"tokens: {len(everything)} tokenizers", flush=True)
    real = [subject for subject in everything if not subject.title.startswith("fixture")]
    for number, rng in comparison.cases():
        subject = rng.choice(real if real and rng.random() < 0.6 else everything)
        where = f"case {number}, {subject.title}"
        check_text(comparison, subject, random_text(rng, subject.vocabulary, subject.added), where)
        ids = [rng.randrange(subject.n_ids) for _ in range(rng.randint(1, 12))]
        ids = [token for token in ids if subject.parsing.id_to_token(token) is not None]
        if subject.falls_back and has_broken_run(subject, ids):  # src/text/detokenizer.h says how these differ
            comparison.left_out("byte tokens in a row that are no characters: tokenizers replaces every byte of the row, "
                                "qinfer, which decodes token by token, those that are wrong")
            continue
        comparison.same(subject.model.detokenize(ids), subject.parsing.decode(ids), f"decoded, {where}, ids {ids}")
