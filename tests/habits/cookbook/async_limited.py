"""Many questions, of which some run at a time, with embeddings of the answers."""

import asyncio

from openai import AsyncOpenAI

client = AsyncOpenAI()


async def answer(limit: asyncio.Semaphore, i: int) -> str:
    async with limit:
        response = await client.chat.completions.create(
            model="tiny-chat",
            messages=[{"role": "user", "content": f"What is {i} + 1?"}],
            temperature=0,
            max_tokens=60,
        )
    return response.choices[0].message.content or ""


async def main() -> None:
    limit = asyncio.Semaphore(3)
    answers = await asyncio.gather(*[answer(limit, i) for i in range(1, 6)])
    vectors = await client.embeddings.create(model="tiny-chat", input=answers)
    print(answers)
    print(len(vectors.data), len({len(item.embedding) for item in vectors.data}))
    await client.close()


asyncio.run(main())
# ['1 + 1 = 2.', '2 + 1 = 3.', '3 + 1 = 4.', '4 + 1 = 5.', '5 + 1 = 6.']
# 5 1
