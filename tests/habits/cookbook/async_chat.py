"""Questions at the same time, with asyncio."""

import asyncio

from openai import AsyncOpenAI


async def main() -> None:
    async with AsyncOpenAI() as client:

        async def ask(country: str) -> str | None:
            response = await client.chat.completions.create(
                model="tiny-chat",
                messages=[{"role": "user", "content": f"What is the capital of {country}?"}],
                temperature=0,
                max_tokens=30,
            )
            return response.choices[0].message.content

        for text in await asyncio.gather(ask("France"), ask("Italy")):
            print(text)


asyncio.run(main())
# The capital of France is Paris.
# The capital of Italy is Rome.
