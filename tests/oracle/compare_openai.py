"""Conversations as OpenAI's clients send them: qinfer with QINFER_CHAT_OPENAI_FORMS against transformers with the same
conversation in the template's own form.

That form is written down here for each family by hand, from what the template says: arguments of calls as text or
object, the content of a message with calls as text or null. What clients send has arguments as text, contents as parts
of text, null and empty fields, and developer for system.
"""
import json
import re

import qinfer
from compare_chat import REFUSED, of_jinja, of_qinfer, whole_templates
from oracle import ROOT, describe
from qinfer import _abi

TOOLS = [{"type": "function", "function": {"name": "get", "description": "d", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "description": "d"}}}}}]
WORDS = [" a", "\n", ' "q"', " <x>", " \u00e9", " {", " 'b'", " None", " \u4f60\u597d", "\\", " &amp;", "\U0001f642"]
NULLS = ["name", "refusal", "function_call"]


class Own:
    """The form that a template takes."""

    def __init__(self, title):
        self.text_arguments = bool(re.search("deepseek|functionary|firefunction", title, re.IGNORECASE))
        self.null_content = "deepseek" in title.lower()
        self.has_tools = title != "llama-cpp-deepseek-r1.jinja"  # which writes calls in no form that transformers has


class Maker:
    """The same conversation twice: in the template's own form, and as clients send it."""

    def __init__(self, rng, own):
        self.rng, self.own = rng, own
        self.plain, self.sent = [], []

    def chance(self, n):
        return self.rng.randrange(n) == 0

    def words(self):
        return "w" + "".join(self.rng.choice(WORDS) for _ in range(self.rng.randrange(5))) + "z"

    def content(self, text):
        if not self.chance(3):
            return text
        if self.chance(2):
            return [{"type": "text", "text": text}]
        cut = self.rng.randint(0, len(text))
        return [{"type": "text", "text": text[:cut]}, {"type": "text", "text": text[cut:]}]

    def add(self, role, text):
        self.plain.append({"role": "system" if role == "developer" else role, "content": text})
        message = {"role": role, "content": self.content(text)}
        message.update({name: None for name in NULLS if self.chance(3)})
        if role == "assistant" and self.chance(3):
            message["tool_calls"] = self.rng.choice([None, []])
        self.sent.append(message)

    def call(self, content, arguments):
        return {"role": "assistant", "content": content, "tool_calls": [
            {"id": "call00000", "type": "function", "function": {"name": "get", "arguments": arguments}}]}

    def add_call(self):
        arguments = {"city": self.words(), "n": self.rng.randrange(100)}
        text = json.dumps(arguments, ensure_ascii=False)
        self.plain.append(self.call(None if self.own.null_content else "", text if self.own.text_arguments else arguments))
        given = arguments if self.chance(4) and not self.own.text_arguments else text
        sent = self.call(self.rng.choice([None, ""]), given)
        if self.chance(4):
            del sent["content"]
        self.sent.append(sent)
        answer = self.words()
        result = {"role": "tool", "tool_call_id": "call00000", "name": "get"}
        self.plain.append({**result, "content": answer})
        self.sent.append({**result, "content": self.content(answer)})

    def conversations(self):
        if self.chance(3):
            self.add(self.rng.choice(["system", "developer"]), self.words())
        has_calls = False
        for _ in range(self.rng.randint(1, 3)):
            self.add("user", self.words())
            if self.own.has_tools and self.chance(2):
                has_calls = True
                self.add_call()
            self.add("assistant", self.words())
        self.add("user", self.words())
        common = {"functions": json.dumps(TOOLS), "datetime": "now", "bos_token": "", "eos_token": "</s>",
                  "add_generation_prompt": True}
        plain, sent = {"messages": self.plain, **common}, {"messages": self.sent, **common}
        if self.own.has_tools and (has_calls or self.chance(2)):
            plain["tools"] = sent["tools"] = TOOLS
        elif self.chance(2):
            sent["tools"] = self.rng.choice([None, []])
        return plain, sent


def compare(comparison):
    model = qinfer.Model(ROOT / "examples" / "models" / "tiny-chat", weights=False)
    templates = list(whole_templates())
    print(f"openai: {len(templates)} templates of models", flush=True)
    refused = 0
    for number, rng in comparison.cases():
        title, source = templates[number % len(templates)]
        plain, sent = Maker(rng, Own(title)).conversations()
        theirs, their_reason = of_jinja(source, plain)
        ours, our_reason = of_qinfer(model, source, sent, _abi.QINFER_CHAT_OPENAI_FORMS)
        refused += theirs is REFUSED

        def difference(ours=ours, theirs=theirs, reasons=(our_reason, their_reason), sent=sent):
            found = reasons if REFUSED in (ours, theirs) else describe(ours, theirs)
            return f"{found}\n    {json.dumps(sent)[:1500]}"

        comparison.check(ours == theirs, f"case {number}, {title}", difference)
    print(f"openai: transformers refused {refused} of them")
