"""An answer by the responses' interface."""

from openai import OpenAI

client = OpenAI()
response = client.responses.create(
    model="tiny-chat",
    instructions="Answer in one sentence.",
    input="What is the capital of France?",
    temperature=0,
)
print(response.output_text)
print(response.status, response.error, response.usage is not None and response.usage.total_tokens > 10)
# The capital of France is Paris.
# completed None True
