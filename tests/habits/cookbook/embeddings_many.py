"""Many texts in one request, with the numbers that it took."""

from openai import OpenAI

client = OpenAI()
response = client.embeddings.create(model="tiny-chat", input=["Hello!", "Good morning", "Hello!"], encoding_format="float")
first, second, third = [item.embedding for item in response.data]
print([item.index for item in response.data], response.object)
print(first == third, first == second, response.usage.prompt_tokens == response.usage.total_tokens > 0)
print(abs(sum(x * x for x in first) - 1) < 1e-3)
# [0, 1, 2] list
# True False True
# True
