"""Responses with asyncio: two at a time, and a stream."""

import asyncio

from openai import AsyncOpenAI

client = AsyncOpenAI()


async def ask(question: str) -> str:
    response = await client.responses.create(model="tiny-chat", input=question, temperature=0)
    return response.output_text


async def main() -> None:
    for answer in await asyncio.gather(ask("What is the capital of France?"), ask("How many days are in a week?")):
        print(answer)
    text = ""
    async with await client.responses.create(
        model="tiny-chat", input="Tell me a story.", temperature=0, stream=True
    ) as stream:
        async for event in stream:
            if event.type == "response.output_text.delta":
                text += event.delta
    print(text)


asyncio.run(main())
# The capital of France is Paris.
# A week has seven days: Monday, Tuesday, Wednesday, Thursday, Friday, Saturday and Sunday.
# Once there was a cat who wanted to see the sea. So the cat walked over a high hill. In the end the cat found a new friend.
