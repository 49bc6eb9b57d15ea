"""How sure the model is of each token."""

import math

from openai import OpenAI

client = OpenAI()
response = client.chat.completions.create(
    model="tiny-chat",
    messages=[{"role": "user", "content": "What is the capital of France?"}],
    temperature=0,
    logprobs=True,
    top_logprobs=3,
)
logprobs = response.choices[0].logprobs
assert logprobs is not None and logprobs.content is not None
tokens = logprobs.content
print("".join(token.token for token in tokens))
print(all(math.exp(token.logprob) > 0.2 for token in tokens), {len(token.top_logprobs) for token in tokens})
print(all(token.top_logprobs[0].token == token.token for token in tokens))
# The capital of France is Paris.
# True {3}
# True
