"""A program that waits and asks again where the service is busy."""

import time

import openai

client = openai.OpenAI()


def ask(question: str, attempts: int = 3) -> str | None:
    for attempt in range(attempts):
        try:
            response = client.chat.completions.create(
                model="tiny-chat", messages=[{"role": "user", "content": question}], temperature=0
            )
            return response.choices[0].message.content
        except (openai.RateLimitError, openai.InternalServerError):
            time.sleep(2**attempt)
    return None


print(ask("Who are you?"))
# I am Tiny, a small chat model.
