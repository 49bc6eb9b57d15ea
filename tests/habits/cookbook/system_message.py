"""A function around a system message."""

from openai import OpenAI

client = OpenAI()


def ask(question: str, *, instructions: str = "You are a helpful assistant.") -> str:
    response = client.chat.completions.create(
        model="tiny-chat",
        messages=[{"role": "system", "content": instructions}, {"role": "user", "content": question}],
        temperature=0,
        max_tokens=60,
    )
    return response.choices[0].message.content or ""


print(ask("What is your name?"))
print(ask("What is 4 + 3?", instructions="Be brief."))
# I am Tiny, a small chat model.
# 4 + 3 = 7.
