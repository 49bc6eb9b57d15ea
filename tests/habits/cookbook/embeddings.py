"""Texts as vectors, and the one that is nearest to a question."""

import math

from openai import OpenAI

client = OpenAI()
texts = ["The cat sat by the house.", "What is the capital of France?", "4 + 3 = 7"]


def embed(text: str) -> list[float]:
    return client.embeddings.create(model="tiny-chat", input=text).data[0].embedding


def cosine(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


vectors = [embed(text) for text in texts]
question = embed("What is the capital of Italy?")
print(max(zip(texts, vectors), key=lambda pair: cosine(question, pair[1]))[0])
# What is the capital of France?
