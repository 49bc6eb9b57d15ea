"""The same seed gives the same answer."""

from openai import OpenAI

client = OpenAI()


def tell(seed: int) -> str | None:
    response = client.chat.completions.create(
        model="tiny-chat",
        messages=[{"role": "user", "content": "Tell me a story."}],
        temperature=1.0,
        top_p=0.95,
        seed=seed,
        max_tokens=40,
    )
    return response.choices[0].message.content


print(tell(5) == tell(5), len({tell(seed) for seed in range(4)}) > 1)
# True True
