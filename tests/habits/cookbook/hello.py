"""One question, one answer."""

from openai import OpenAI

client = OpenAI()
response = client.chat.completions.create(
    model="tiny-chat",
    messages=[{"role": "user", "content": "What is the capital of France?"}],
    temperature=0,
)
print(response.choices[0].message.content)
print(response.choices[0].finish_reason, response.object)
# The capital of France is Paris.
# stop chat.completion
