"""all-MiniLM-L6-v2, real weights: 20,000 texts through its tokenizer, and vectors of 500 against sentence-transformers.

Both numbers are fixed, whatever --seconds says. Under EXACT no value of a vector is more than 1e-5 off,
and with the default kernels the cosine of the two vectors is at least 0.9999.
"""
import pathlib

import numpy
import qinfer
import tokenizers
from oracle import LeftOut, data_folders
from random_texts import random_text

FOLDER = "models/all-MiniLM-L6-v2"
N_TOKENISED, N_EMBEDDED = 20_000, 500
EXACT_BOUND, MIN_COSINE = 1e-5, 0.9999


def model_folder():
    for folder in data_folders():
        if (folder / FOLDER / "model.safetensors").is_file():
            return folder / FOLDER
    raise LeftOut(f"{FOLDER} is not among the test data: ./dev test-data fetches it")


class Texts:
    """Random texts that the tokenizer's words are in."""

    def __init__(self, folder):
        self.oracle = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.oracle.no_truncation()
        self.oracle.no_padding()
        self.added = ["[CLS]", "[SEP]", "[MASK]", "[UNK]", "[PAD]"]
        self.words = sorted(self.oracle.get_vocab())
        self.plain = [word for word in self.words if word.isascii() and word.isalpha()]

    def any(self, rng):
        vocabulary = self.words if rng.random() < 0.3 else self.plain
        return random_text(rng, [word.removeprefix("##") for word in vocabulary], self.added)

    def sentence(self, rng):
        """Of 1 to some 200 tokens: words, and at times something else."""
        parts = [rng.choice(self.plain) if rng.random() < 0.9 else self.any(rng)[:40] for _ in range(rng.randint(1, 120))]
        return " ".join(parts)


def compare_tokens(comparison, model, texts, rng):
    for _ in range(N_TOKENISED):
        text = texts.any(rng)
        theirs = texts.oracle.encode(text).ids
        comparison.same(model.tokenize(text, special=True, parse_special=True), theirs, f"ids of {ascii(text)[:300]}")


def embeddings(folder, sentences, exact):
    with qinfer.Runtime(exact=exact) as runtime, qinfer.Model(str(folder), runtime) as model:
        return numpy.array(qinfer.embed(model, sentences, truncate=True))


def compare_vectors(comparison, folder, sentences):
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        comparison.left_out("vectors: sentence-transformers is not installed")
        return
    theirs = SentenceTransformer(str(folder), device="cpu").encode(sentences, batch_size=16, show_progress_bar=False)
    for exact in (True, False):
        ours = embeddings(folder, sentences, exact)
        for i, (mine, other) in enumerate(zip(ours, theirs)):
            off = float(numpy.abs(mine - other).max())
            cosine = float(mine @ other / numpy.linalg.norm(mine) / numpy.linalg.norm(other))
            comparison.check(off <= EXACT_BOUND if exact else cosine >= MIN_COSINE,
                             f"vector of text {i}, {'exact' if exact else 'default'} kernels",
                             lambda off=off, cosine=cosine: f"{off:g} off, cosine {cosine:.7f}")
        off = numpy.abs(ours - theirs).max()
        cosines = (ours * theirs).sum(1) / numpy.linalg.norm(ours, axis=1) / numpy.linalg.norm(theirs, axis=1)
        print(f"encoders: {'exact' if exact else 'default'} kernels: at most {off:.1e} off, cosine at least {cosines.min():.7f}")


def compare(comparison):
    folder = pathlib.Path(model_folder())
    texts = Texts(folder)
    _, rng = next(comparison.cases())
    with qinfer.Model(str(folder), weights=False) as model:
        compare_tokens(comparison, model, texts, rng)
    compare_vectors(comparison, folder, [texts.sentence(rng) for _ in range(N_EMBEDDED)])
