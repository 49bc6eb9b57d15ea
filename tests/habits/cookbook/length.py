"""Answers that are cut off, and a program that notices."""

from openai import OpenAI

client = OpenAI()


def complete(limit: int) -> str:
    choice = client.chat.completions.create(
        model="tiny-chat",
        messages=[{"role": "user", "content": "What is the capital of France?"}],
        temperature=0,
        max_completion_tokens=limit,
    ).choices[0]
    return f"{'cut' if choice.finish_reason == 'length' else 'whole'}: {len(choice.message.content or '') > 20}"


print(complete(2))
print(complete(50))
# cut: False
# whole: True
