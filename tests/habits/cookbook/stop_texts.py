"""Answers that end before a text."""

from openai import OpenAI

client = OpenAI()
for stop in ([" is Paris"], ["France", "Paris"]):
    response = client.chat.completions.create(
        model="tiny-chat",
        messages=[{"role": "user", "content": "What is the capital of France?"}],
        temperature=0,
        stop=stop,
    )
    print(repr(response.choices[0].message.content), response.choices[0].finish_reason)
# 'The capital of France' stop
# 'The capital of ' stop
