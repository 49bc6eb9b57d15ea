"""Ctrl-C twice in a stream: the conversation goes on."""

import os
import signal
import sys
import threading
import time

import qinfer

model = qinfer.Model(sys.argv[1])
session = qinfer.Session(model)
session.set_bias({token: float("-inf") for token in model.end_tokens})  # so that it does not end by itself
chat = qinfer.Chat(model, session=session)


begun = threading.Event()


def press() -> None:
    begun.wait()
    for _ in range(2):
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)


threading.Thread(target=press).start()
try:
    for part in chat.stream("Tell me a story."):
        begun.set()
except KeyboardInterrupt:
    try:
        time.sleep(5)
    except KeyboardInterrupt:
        pass
print([message["role"] for message in chat.messages])
print(len(chat.send("What is 4 + 3?", max_tokens=5)) >= 0, len(chat.messages))
# ['user', 'assistant']
# True 4
