"""A history of which only the last messages are sent."""

from typing import Any

from openai import OpenAI

client = OpenAI()
history: list[Any] = []


def say(text: str, *, keep: int = 4) -> str:
    history.append({"role": "user", "content": text})
    response = client.chat.completions.create(model="tiny-chat", messages=history[-keep - 1 :], temperature=0, max_tokens=40)
    content = response.choices[0].message.content or ""
    history.append({"role": "assistant", "content": content})
    return content


for question in ("Hello!", "What is 4 + 3?", "What color is the sky?", "What is the capital of France?"):
    print(say(question))
# Hello! What can I do for you?
# 4 + 3 = 7.
# The sky is blue.
# The capital of France is Paris.
