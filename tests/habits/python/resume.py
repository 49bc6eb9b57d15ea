"""A conversation that is saved, and goes on in another session without evaluating it again."""

import pathlib
import sys
import tempfile

import qinfer

model = qinfer.Model(sys.argv[1])
with tempfile.TemporaryDirectory() as folder:
    file = pathlib.Path(folder) / "session"
    chat = qinfer.Chat(model)
    chat.send("Hello!")
    assert chat.session is not None
    chat.session.save(file)
    resumed = qinfer.Chat(model, chat.messages, session=qinfer.Session.load(qinfer.KvCache(model), file))
    assert resumed.session is not None
    before = resumed.session.metrics["prefill_tokens"] + resumed.session.metrics["decode_tokens"]
    length = len(resumed.session)
    print(resumed.send("What is the capital of France?"))
    after = resumed.session.metrics["prefill_tokens"] + resumed.session.metrics["decode_tokens"]
    print(after - before == len(resumed.session) - length)
# The capital of France is Paris.
# True
