"""A stream with asyncio."""

import asyncio

from openai import AsyncOpenAI

client = AsyncOpenAI()


async def main() -> None:
    stream = await client.chat.completions.create(
        model="tiny-chat",
        messages=[{"role": "user", "content": "Tell me a story."}],
        temperature=0,
        stream=True,
    )
    text = ""
    async for chunk in stream:
        text += chunk.choices[0].delta.content or ""
    print(text)


asyncio.run(main())
# Once there was a cat who wanted to see the sea. So the cat walked over a high hill. In the end the cat found a new friend.
