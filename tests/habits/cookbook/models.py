"""Which models there are."""

from openai import OpenAI

client = OpenAI()
models = client.models.list()
for model in models:
    print(model.object, bool(model.id))
print(client.models.retrieve(models.data[0].id).id == models.data[0].id)
# model True
# True
