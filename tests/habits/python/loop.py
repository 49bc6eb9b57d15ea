"""Three chats at the same time in one loop, which stays free; one is given up."""

import asyncio
import sys

import qinfer


async def main(model: qinfer.Model) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.005)
            ticks += 1

    clock = asyncio.create_task(tick())
    chats = [qinfer.Chat(model) for _ in range(3)]
    questions = ["Hello!", "What is 4 + 3?", "What is the capital of France?"]
    print(await asyncio.gather(*[chat.asend(question) for chat, question in zip(chats, questions)]))
    print(ticks > 0)
    try:
        await asyncio.wait_for(chats[0].asend("Tell me a story."), 0.001)
    except asyncio.TimeoutError:
        print([message["role"] for message in chats[0].messages][:2])
    print(await chats[0].asend("What is 4 + 3?"))
    clock.cancel()


asyncio.run(main(qinfer.Model(sys.argv[1])))
# ['Hello! What can I do for you?', '4 + 3 = 7.', 'The capital of France is Paris.']
# True
# ['user', 'assistant']
# 4 + 3 = 7.
