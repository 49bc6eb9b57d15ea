"""What a response cannot do is an error that names the field."""

import openai

client = openai.OpenAI()
try:
    client.responses.create(model="tiny-chat", input="Hello!", previous_response_id="resp_1")
except openai.BadRequestError as error:
    print("previous_response_id" in str(error), error.status_code)
try:
    client.responses.create(model="tiny-chat", input="Hello!", tools=[{"type": "web_search"}])
except openai.BadRequestError as error:
    print("web_search" in str(error), error.status_code)
cut = client.responses.create(model="tiny-chat", input="Tell me a story.", max_output_tokens=3, temperature=0)
print(cut.status, cut.incomplete_details and cut.incomplete_details.reason)
# True 400
# True 400
# incomplete max_output_tokens
