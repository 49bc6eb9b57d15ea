"""Each token with its log probability and what else was likely."""

import sys

import qinfer

session = qinfer.Session(qinfer.Model(sys.argv[1]))
session.append("The capital of France is")
tokens: list[qinfer.TokenInfo] = []
session.generate(4, on_token_info=tokens.append, top=3)
print(len(tokens), all(one.logprob <= 0 for one in tokens))
print(all(one.top == sorted(one.top, key=lambda pair: -pair[1]) and one.top[0][0] == one.token for one in tokens))
# 4 True
# True
