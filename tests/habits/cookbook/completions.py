"""A text that goes on."""

from openai import OpenAI

client = OpenAI()
response = client.completions.create(
    model="tiny-chat", prompt="Once there was a", max_tokens=8, temperature=0, echo=True, logprobs=1
)
choice = response.choices[0]
assert choice.logprobs is not None and choice.logprobs.tokens is not None
print(choice.text.startswith("Once there was a"), choice.finish_reason, response.object)
print(choice.text == "".join(choice.logprobs.tokens))
# True length text_completion
# True
