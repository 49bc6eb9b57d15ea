"""Random texts through every tokenizer.json at hand: ids and decoded texts against the `tokenizers` package.

Each case is one text with each way to encode it (control tokens in the text parsed or not, with and without what the
tokenizer puts around a text), the text of its ids, and the text of random ids, whose bytes may be no characters.
"""
import json
import pathlib
import re
import tempfile

import qinfer
import tokenizers
from oracle import FIXTURES, ROOT, model_files
from random_texts import random_text

BROKEN_RUN = ("byte tokens in a row that are no characters: tokenizers replaces every byte of the row, qinfer, which "
              "decodes token by token, those that are wrong")


class Subject:
    """A tokenizer.json in both libraries."""

    def __init__(self, title, path, config):
        self.title = title
        text = path.read_text(encoding="utf-8")
        self.parsing = tokenizers.Tokenizer.from_str(text)
        self.plain = tokenizers.Tokenizer.from_str(text)
        self.plain.encode_special_tokens = True
        for theirs in (self.parsing, self.plain):  # qinfer does neither
            theirs.no_truncation()
            theirs.no_padding()
        parsed = json.loads(text)
        self.falls_back = '"ByteFallback"' in json.dumps(parsed["decoder"])
        self.added = [token["content"] for token in parsed["added_tokens"]]
        self.special = {token["content"] for token in parsed["added_tokens"] if token["special"]}
        self.n_ids = 1 + max(self.parsing.get_vocab().values())
        # With the characters that stand for bytes and spaces read back, and without WordPiece's prefix. Unigram's
        # vocabulary is a list of tokens with their scores.
        tokens = [token if isinstance(token, str) else token[0] for token in parsed["model"]["vocab"]]
        vocabulary = [token.replace("\u0120", " ").replace("\u010a", "\n").replace("\u2581", " ").removeprefix("##")
                      for token in tokens]
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
            if special and parse and subject.falls_back and has_broken_run(subject, theirs):
                comparison.left_out(BROKEN_RUN)
            elif special and parse:
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
            comparison.left_out(BROKEN_RUN)
            continue
        comparison.same(subject.model.detokenize(ids), subject.parsing.decode(ids), f"decoded, {where}, ids {ids}")
