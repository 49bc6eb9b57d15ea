"""Fifty texts as vectors, the same in a batch and alone."""

import sys

import qinfer

model = qinfer.Model(sys.argv[1])
texts = [f"What is {i} + 3?" for i in range(50)]
vectors = qinfer.embed(model, texts)
(alone,) = qinfer.embed(model, texts[7:8])
print(len(vectors), list(alone) == list(vectors[7]), len(alone) == model.info["embedding_dims"])
# 50 True True
