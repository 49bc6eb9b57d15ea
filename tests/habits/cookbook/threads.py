"""Questions that several threads ask with one client."""

from concurrent.futures import ThreadPoolExecutor

from openai import OpenAI

client = OpenAI()


def add(pair: tuple[int, int]) -> str:
    response = client.chat.completions.create(
        model="tiny-chat",
        messages=[{"role": "user", "content": f"What is {pair[0]} + {pair[1]}?"}],
        temperature=0,
        max_tokens=60,
    )
    return response.choices[0].message.content or ""


with ThreadPoolExecutor(4) as pool:
    for text in pool.map(add, [(4, 3), (2, 2), (5, 1)]):
        print(text)
# 4 + 3 = 7.
# 2 + 2 = 4.
# 5 + 1 = 6.
