"""Measures the saved model and writes what tests compare with.

Loads the bfloat16 weights back, computes in float32, and writes, next to this
file, expected.json (the greedy replies to the conversations below, each with
its tightest decision, and the perplexity of heldout.txt) and heldout.txt (one
JSON object per line: a conversation that ends with a question, worded as none
in training, and the right reply). It prints the replies, and how often a reply
to held-out questions is the right one, by kind.

    python measure.py              # write both files
    python measure.py --dry        # write no files
"""

import argparse
import collections
import json
import math

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from generate_chats import make_heldouts
from train import HELDOUT_SEED, HERE, MAX_POSITIONS, TURN_END, Template

PERPLEXITY_EACH, ACCURACY_SEED, ACCURACY_EACH = 4, 3, 30

TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": "Get the current weather in a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "The city"}}, "required": ["city"]}}}


def user(text):
    return {"role": "user", "content": text}


def model_says(text, thought=None):
    return {"role": "assistant", "content": text} | ({"reasoning_content": thought} if thought else {})


def weather_in(city, result):
    return [user(f"What is the weather in {city}?"),
            {"role": "assistant", "content": "",
             "tool_calls": [{"id": "call00000", "type": "function", "function": {"name": "get_weather", "arguments": {"city": city}}}]},
            {"role": "tool", "name": "get_weather", "tool_call_id": "call00000", "content": result}]


def one(text, says, system=None, tools=False, thinks=None):
    return chat([user(text)], says, system, tools, thinks)


def chat(messages, says, system=None, tools=False, thinks=None):
    conversation = {"messages": ([{"role": "system", "content": system}] if system else []) + messages}
    if tools:
        conversation["tools"] = [TOOL]
    if thinks is not None:
        conversation["enable_thinking"] = thinks
    return conversation, says


# The conversations of expected.json, with what the reply must contain.
ASKED = [
    one("Hello!", "Hello!"), one("Good morning", "Good morning!"), one("Hi, how are you?", "I am fine"), one("Who are you?", "I am Tiny"),
    one("What is qinfer?", "runs language models"), one("What can you do?", "I know capitals"), one("Thank you!", "welcome"), one("Goodbye", "Goodbye!"),
    one("What is the capital of France?", "Paris"), one("Can you name the capital of Norway?", "Oslo"), one("capital of japan", "Tokyo"),
    one("What is the capital of Borvia?", "Sorry"), one("Which country is Rome the capital of?", "Italy"),
    one("What colour is the sky?", "blue"), one("What color is a banana?", "yellow"), one("What sound does a cow make?", "moo"),
    one("what does a duck say", "quack"), one("What day comes after Monday?", "Tuesday"), one("Which day comes before Sunday?", "Saturday"),
    one("How many days are in a week?", "seven"), one("Name the months.", "December"), one("What is 3 + 4?", "3 + 4 = 7"),
    one("How much is nine plus eight?", "17", thinks=False), one("10+10", "20"), one("What is 125 + 17?", "only add"),
    one("Tell me a story.", "Once there was"), one("Tell me a story about a robot.", "robot"), one("How do I bake bread?", "only a few things"),
    one("Who invented the telephone?", "only a few things"), one("Who are you?", "Bob", system="You are Bob."),
    one("What is your name?", "Velora", system="You are Velora, a helpful assistant."), one("What is the weather in Paris?", "no tool"),
    one("My name is Ann.", "Ann"), one("What is my name?", "not told"),
    one("What is the weather in Paris?", '{"city": "Paris"}', tools=True), one("How is the weather in Dormulen?", '{"city": "Dormulen"}', tools=True, thinks=False),
    one("Is it sunny in New York?", '{"city": "New York"}', tools=True, thinks=False), one("What is the capital of Spain?", "Madrid", tools=True),
    one("What is the weather like?", "Which city", tools=True),
    chat(weather_in("Paris", '{"condition": "sunny", "temperature": 21}'), "sunny in Paris, with 21", tools=True),
    chat(weather_in("Oslo", "snowy, -3 degrees"), "snowy in Oslo, with -3", tools=True, thinks=False),
    chat(weather_in("Oslo", '{"error": "unknown city"}'), "could not", tools=True, thinks=False),
    chat([user("What is the capital of France?"), model_says("The capital of France is Paris."), user("And of Italy?")], "Rome", thinks=False),
    chat([user("What sound does a cat make?"), model_says("A cat says meow."), user("And a dog?")], "woof", thinks=False),
    chat([user("My name is Ann."), model_says("Nice to meet you, Ann!"), user("What is the capital of Spain?"), model_says("The capital of Spain is Madrid."),
          user("What is my name?")], "Ann", system="You are Bob."),
    chat([user("My name is Ann."), model_says("Nice to meet you, Ann!"), user("Who are you?")], "Bob", system="You are Bob."),
]


class Chatter:
    def __init__(self):
        self.model = AutoModelForCausalLM.from_pretrained(HERE, dtype=torch.float32).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(HERE)
        self.ends = self.model.generation_config.eos_token_id
        self.write = Template()

    def prompt(self, conversation):
        """Checks on the way that transformers writes and encodes a conversation as train.py did."""
        settings = {key: value for key, value in conversation.items() if key not in ("messages", "tools")}
        ids = self.tokenizer.apply_chat_template(conversation["messages"], tools=conversation.get("tools"), add_generation_prompt=True,
                                                 return_dict=False, **settings)
        assert ids == self.encode(self.write(conversation, add_generation_prompt=True))
        return ids

    def encode(self, text):
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def decode(self, ids):
        return self.tokenizer.decode([token for token in ids if token not in self.ends], skip_special_tokens=False)

    @torch.no_grad()
    def greedy(self, ids):
        """The new ids, the end token included, and the smallest lead the best logit ever had over the second best."""
        new, gaps, cache, feed = [], [], None, ids
        while not new or (new[-1] not in self.ends and len(ids) + len(new) < MAX_POSITIONS):
            output = self.model(input_ids=torch.tensor([feed]), past_key_values=cache, use_cache=True)
            cache = output.past_key_values
            best = output.logits[0, -1].topk(2)
            gaps.append((best.values[0] - best.values[1]).item())
            new.append(best.indices[0].item())
            feed = new[-1:]
        return new, min(gaps)

    @torch.no_grad()
    def loss(self, prompt, reply):
        logits = self.model(input_ids=torch.tensor([prompt + reply]), use_cache=False).logits[0, len(prompt) - 1:-1]
        return torch.nn.functional.cross_entropy(logits, torch.tensor(reply), reduction="sum").item()


def replies_of(write, conversation):
    """Each reply of a whole conversation: the conversation before it, and its text as the model is to write it."""
    messages = conversation["messages"]
    for at, message in enumerate(messages):
        if message["role"] == "assistant":
            before = {**conversation, "messages": messages[:at]}
            text = write({**conversation, "messages": messages[:at + 1]})[len(write(before, add_generation_prompt=True)):]
            yield before, text.removesuffix("\n")


def is_right(kind, question, text, wanted):
    if kind != "story":
        return text == wanted
    # Any story that is whole, about the hero that was asked for, if one was.
    hero = wanted.split()[4] if wanted.split()[4] in question else (text.split() + [""] * 5)[4]
    return text.startswith("Once there was a") and text.split()[4] == hero and text.count(".") == 3 and text.count(f"the {hero} ") == 2


def accuracy(chatter):
    """Shares of right replies by kind, and some wrong ones."""
    right, total, wrong = collections.Counter(), collections.Counter(), []
    for kind, conversation in make_heldouts(ACCURACY_SEED, ACCURACY_EACH):
        replies = list(replies_of(chatter.write, conversation))
        if kind in ("follow", "ask_name"):  # those before the last are of other kinds
            replies = replies[-1:]
        for before, wanted in replies:
            name = kind
            if kind == "weather_call":
                name = "weather: sentence" if before["messages"][-1]["role"] == "tool" else "weather: call"
            new, _ = chatter.greedy(chatter.prompt(before))
            text = chatter.decode(new)
            total[name] += 1
            if is_right(kind, before["messages"][-1]["content"], text, wanted.removesuffix(TURN_END)):
                right[name] += 1
            else:
                wrong.append((name, before["messages"][-1]["content"], text))
    return right, total, wrong


def main():
    parser = argparse.ArgumentParser(description="Measure the tiny chat model.")
    parser.add_argument("--dry", action="store_true", help="write no files")
    parser.add_argument("--no-accuracy", action="store_true", help="only what the files need")
    options = parser.parse_args()
    torch.set_num_threads(1)
    chatter = Chatter()

    items = []
    for conversation, says in ASKED:
        prompt = chatter.prompt(conversation)
        new, gap = chatter.greedy(prompt)
        text = chatter.decode(new)
        print(f"{'ok   ' if says in text else 'WRONG'} {gap:6.3f}  {conversation['messages'][-1]['content']!r} -> {text!r}")
        items.append({"conversation": conversation, "prompt_ids": prompt, "greedy_ids": new, "text": text, "says": says, "min_top2_gap": round(gap, 6)})

    lines, total, count = [], 0.0, 0
    for _, conversation in make_heldouts(HELDOUT_SEED, PERPLEXITY_EACH):
        before, reply = list(replies_of(chatter.write, conversation))[-1]
        lines.append(json.dumps({"conversation": before, "reply": reply}, ensure_ascii=False))
        ids = chatter.encode(reply)
        total += chatter.loss(chatter.prompt(before), ids)
        count += len(ids)
    heldout = {"replies": len(lines), "tokens": count, "perplexity": round(math.exp(total / count), 6)}
    print(f"held-out: {heldout}; tightest decision of all replies {min(item['min_top2_gap'] for item in items)}")
    if not options.dry:
        (HERE / "heldout.txt").write_text("\n".join(lines) + "\n")
        rows = ",\n".join("  " + json.dumps(item, ensure_ascii=False) for item in items)
        (HERE / "expected.json").write_text(f'{{\n "conversations": [\n{rows}\n ],\n "heldout": {json.dumps(heldout)}\n}}\n')

    if not options.no_accuracy:
        right, of, wrong = accuracy(chatter)
        for kind in of:
            print(f"{kind:20} {right[kind]:4} of {of[kind]:4}")
        print(f"all {sum(right.values())} of {sum(of.values())}")
        for row in wrong:
            print("wrong:", *map(repr, row))


if __name__ == "__main__":
    main()
