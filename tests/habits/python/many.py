"""Fifty prompts, and a conversation of many, without a scheduler in the program."""

import sys

import qinfer

model = qinfer.Model(sys.argv[1])
prompts = [f"{i} + 1 =" for i in range(50)]
seen: list[int] = []
texts = [one.text for one in model.generate(prompts, 4, progress=lambda done, total: seen.append(done))]
with qinfer.Session(model) as session:
    session.append(prompts[7])
    print(session.generate(4).text == texts[7], seen == list(range(1, 51)))
chats = qinfer.Chat.batch(model, [f"What is {i} + 3?" for i in range(1, 6)], max_tokens=60)
print([chat.text for chat in chats])
# True True
# ['1 + 3 = 4.', '2 + 3 = 5.', '3 + 3 = 6.', '4 + 3 = 7.', '5 + 3 = 8.']
