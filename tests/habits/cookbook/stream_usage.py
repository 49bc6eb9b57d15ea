"""A stream that says at its end what it took."""

from openai import OpenAI

client = OpenAI()
stream = client.chat.completions.create(
    model="tiny-chat",
    messages=[{"role": "user", "content": "What color is the sky?"}],
    temperature=0,
    stream=True,
    stream_options={"include_usage": True},
)
parts = []
usage = None
for chunk in stream:
    if chunk.choices and chunk.choices[0].delta.content:
        parts.append(chunk.choices[0].delta.content)
    if chunk.usage is not None:
        usage = chunk.usage
print("".join(parts))
assert usage is not None
print(usage.total_tokens == usage.prompt_tokens + usage.completion_tokens, usage.completion_tokens > 3)
# The sky is blue.
# True True
