"""How well a model knows a text: the log probability of each token."""

import math
import sys

import qinfer

model = qinfer.Model(sys.argv[1])


def perplexity(text: str) -> float:
    tokens = model.tokenize(text)
    total = 0.0
    with qinfer.Session(model) as session:
        session.append(tokens[:1])
        for token in tokens[1:]:
            session.evaluate()
            total -= session.logprobs([token])[0]
            session.append([token])
    return math.exp(total / (len(tokens) - 1))


print(perplexity("The capital of France is Paris.") < perplexity("The Paris of capital France is."))
# True
