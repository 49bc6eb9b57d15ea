"""What goes wrong says what would be right. Each mistake is one that newcomers made."""

import copy
import pickle
import sys
from typing import Any

import qinfer

model = qinfer.Model(sys.argv[1])
path: Any = sys.argv[1]
any_model: Any = model
any_chat: Any = qinfer.Chat(path)


def tried(work: Any) -> None:
    try:
        work()
    except Exception as failure:
        print(type(failure).__name__, failure)


name: Any = "avx2"
tried(lambda: qinfer.Model(path, name))
number: Any = 5
tried(lambda: qinfer.Session(number))
tried(lambda: copy.copy(model))
tried(lambda: pickle.dumps(model))
kv_type: Any = "q8"
tried(lambda: qinfer.KvCache(path, kv_type=kv_type))
session = qinfer.Session(path)
tried(lambda: session.embedding())
session.append("Hello")
session.evaluate()
tried(lambda: session.embedding())
tried(lambda: any_model.generate("Hello", 5))
tried(lambda: any_chat.send("Hello", temperature=1))
tried(lambda: session.generate(-1))
tried(lambda: any_chat.send("word " * 2000))
tried(lambda: qinfer.OpenAI(base_url="http://localhost/v1"))
tried(lambda: qinfer.OpenAI().chat.completions.create(model="gpt-5", messages=[]))
# TypeError a Runtime is expected, not 'avx2'
# TypeError a Model is expected, not 5
# TypeError a Model cannot be copied or pickled: threads may share it, another process loads it from its path
# TypeError a Model cannot be copied or pickled: threads may share it, another process loads it from its path
# ValueError kv_type is 'q8', expected one of 'default', 'f32', 'f16', 'bf16'
# StateError QINFER_E_STATE: the session keeps no hidden states: create it with Session(..., embeddings=True)
# StateError QINFER_E_STATE: the session keeps no hidden states: create it with Session(..., embeddings=True)
# TypeError generate() takes a list of prompts, not one text
# TypeError stream() got an unexpected keyword argument 'temperature'
# ValueError max_tokens is -1, which is out of range: 0 to 4294967295 is expected
# ContextFullError QINFER_E_CONTEXT_FULL: the conversation has 4009 tokens with this message, and a context of 1024 has no room for a reply: shorten or remove messages
# UnsupportedError QINFER_E_UNSUPPORTED: base_url is not supported: the model runs in this process, and nothing is sent; give model=PATH
# NotFoundError QINFER_E_NOT_FOUND: model is 'gpt-5', which is no file or directory, and none of the names that are known (none): give OpenAI(model=PATH), OpenAI(models={NAME: PATH}), or QINFER_MODEL in the environment
