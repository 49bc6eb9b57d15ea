"""What a type checker must find: each line that says so, and no other."""

import qinfer

model = qinfer.Model("path", verfy=True)  # wrong
session = qinfer.Session(model, embedding=True)  # wrong
session.set_sampler(temprature=0.7)  # wrong
session.set_sampler(temperature="hot")  # wrong
session.embedding("avg")  # wrong
session.set_pair("query", "document", instrution="x")  # wrong
chat = qinfer.Chat(model, sampler={"top": 5})  # wrong
chat.send("Hello", max_token=5)  # wrong
for part in chat.stream("Hello", reasoning="no"):  # wrong
    print(part.txt)  # wrong
print(model.info["n_vocabulary"])  # wrong
print(qinfer.plan("path", kv_type="q8"))  # wrong
print(model.generate(["a"], 5, progres=print))  # wrong
print(qinfer.cpu_info()["cores"])  # wrong
client = qinfer.OpenAI(model=model)
client.chat.completions.create(messages=[], temprature=0)  # wrong
answer = client.chat.completions.create(messages=[])
print(answer.choices[0].message.contents)  # wrong
stream = client.chat.completions.create(messages=[], stream=True)
print(stream.choices)  # wrong
for chunk in stream:
    print(chunk.choices[0].message)  # wrong
