"""A classifier: the likelier of two first tokens."""

from openai import OpenAI

client = OpenAI()


def first_token(question: str) -> str:
    response = client.chat.completions.create(
        model="tiny-chat",
        messages=[{"role": "user", "content": question}],
        temperature=0,
        max_tokens=1,
        logprobs=True,
        top_logprobs=5,
    )
    logprobs = response.choices[0].logprobs
    assert logprobs is not None and logprobs.content
    best = max(logprobs.content[0].top_logprobs, key=lambda top: top.logprob)
    return best.token


print(first_token("Hello!") == first_token("What is the capital of France?"))
# False
