"""What goes wrong has a class."""

import openai

client = openai.OpenAI(max_retries=0)
try:
    client.chat.completions.create(
        model="tiny-chat", messages=[{"role": "user", "content": "Hello!"}], temperature=0, top_p=7
    )
except openai.BadRequestError as error:
    print(error.status_code, "top_p" in str(error), isinstance(error, openai.APIError))
except openai.APIConnectionError:
    print("no connection")
try:
    client.chat.completions.create(model="tiny-chat", messages=[{"role": "user", "content": "long " * 5000}])
except openai.APIStatusError as error:
    print(error.status_code)
# 400 True True
# 400
