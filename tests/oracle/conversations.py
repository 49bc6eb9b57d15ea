"""Random conversations, as chat templates are given them: variables of a template, in JSON."""
import json

ROLES = ["system", "user", "assistant", "tool", "developer", "ipython", "function", "User", ""]
WORDS = ["Hello", "world", "weather", "caf\u00e9", "\u4f60\u597d", "\u0440\u0443\u0441", "\U0001f642", "x < y & z > 1",
         "it's", '"quoted"', "a\\b", "{{ x }}", "{% raw %}", "{# c #}", "%s", "{0}", "<b>bold</b>", "&amp;", "e\u0301",
         "\u00df\u0130\u01c5", "\u2028", "\x0b", "\x00", "\x7f", "\ufeff", "```json\n{\"a\": 1}\n```", "1,234.5", "None"]
CONTROL = ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "[INST]",
           "[/INST]", "<s>", "</s>", "<|eot_id|>", "<|start_header_id|>", "<|python_tag|>", "<|end|>", "<|user|>",
           "<\uff5cUser\uff5c>", "<\uff5ctool\u2581calls\u2581begin\uff5c>", "functools[", ">>>all\n", "[TOOL_CALLS]", "[ARGS]",
           "<|START_OF_TURN_TOKEN|>", "<start_of_turn>", "assistant\n", "/no_think", "/think"]
SPACES = [" ", " ", "\n", "\n\n", "  ", "\t", "\r\n", "\xa0"]
NUMBERS = [0, 1, -1, 7, 42, 2**31, -(2**63), 2**63 - 1, 0.0, -0.0, 0.1, 1.5, -2.25, 1e16, 1e20, 1e-5, 1e-7, 3.14159, 1e300]
NAMES = ["get_weather", "f", "python", "code_interpreter", "brave_search", "internet_search", "query", "a-b", "\u00e9t\u00e9"]
TYPES = ["string", "number", "integer", "boolean", "array", "object", "null"]


class Maker:
    """Conversations that mostly are as templates expect them; `chaos` is the share of what is not."""

    def __init__(self, rng, numbers=NUMBERS):
        self.rng, self.numbers = rng, numbers
        self.chaos = rng.choice([0, 0, 0, 0.02, 0.1, 0.3])
        self.has_parts = rng.random() < 0.15  # lists as content
        self.has_empty = rng.random() < 0.3  # null as content of a message with calls
        self.most_calls = rng.choice([1, 1, 3])

    def odd(self):
        return self.rng.random() < self.chaos

    def text(self):
        rng = self.rng
        parts = [rng.choice(rng.choice([WORDS, WORDS, CONTROL, SPACES])) for _ in range(rng.choice([0, 1, 2, 3, 5, 9]))]
        return rng.choice(["", " "]).join(parts)

    def value(self, depth=2):
        rng = self.rng
        kind = rng.randrange(8 if depth else 5)
        if kind < 2:
            return self.text()
        if kind < 5:
            return [rng.choice(self.numbers), rng.choice([True, False]), None][kind - 2]
        if kind == 5:
            return [self.value(depth - 1) for _ in range(rng.randint(0, 3))]
        return {rng.choice([*NAMES, *WORDS, "name", "items", "keys", "content"]): self.value(depth - 1)
                for _ in range(rng.randint(0, 3))}

    def arguments(self):
        made = {self.rng.choice(["location", "unit", "x", "code", "items", "q"]): self.value(2)
                for _ in range(self.rng.randint(0, 3))}
        return json.dumps(made, ensure_ascii=self.rng.random() < 0.5) if self.rng.random() < 0.3 else made

    def call(self):
        function = {"name": self.rng.choice(NAMES), "arguments": self.arguments()}
        if self.odd():
            function.pop(self.rng.choice(["name", "arguments"]))
        made = dict(function) if self.odd() else {"type": "function", "function": function}
        if self.rng.random() < 0.5:
            made["id"] = self.rng.choice(["call_1", "123456789", "abcdefghi", "", "x"])
        return self.value() if self.odd() else made

    def part(self):
        made = {"type": "text", "text": self.text()}
        if self.odd() or self.rng.random() < 0.1:
            made = self.rng.choice([{"type": "image"}, {"type": "image_url", "image_url": {"url": "a.png"}}, {"text": "x"},
                                    {"type": "text"}, self.text(), {"type": "video"}])
        return made

    def content(self):
        if self.odd():
            return self.value()
        if self.has_parts and self.rng.random() < 0.5:
            return [self.part() for _ in range(self.rng.randint(0, 3))]
        return self.text()

    def message(self, role):
        rng = self.rng
        made = {"role": rng.choice(ROLES) if self.odd() else role, "content": self.content()}
        if role == "assistant":
            if rng.random() < 0.35:
                made["tool_calls"] = [self.call() for _ in range(rng.randint(0, self.most_calls))]
                if rng.random() < 0.7:
                    made["content"] = None if self.has_empty else ""
            if rng.random() < 0.25:
                made["reasoning_content"] = rng.choice([self.text(), self.text(), "", None])
            if rng.random() < 0.2 and isinstance(made["content"], str):
                made["content"] = f"<think>{self.text()}</think>{rng.choice(SPACES)}" + made["content"]
        if role == "tool":
            made["content"] = json.dumps(self.value()) if rng.random() < 0.4 else made["content"]
            for key in ("name", "tool_call_id"):
                if rng.random() < 0.5:
                    made[key] = rng.choice(NAMES)
        if self.odd():
            made.pop(rng.choice(sorted(made)))
        if self.odd():
            made[rng.choice(["name", "tool_calls", "reasoning_content", "prefix", "content", "role"])] = self.value()
        return self.value() if self.odd() and self.odd() else made

    def messages(self):
        rng = self.rng
        made = [self.message("system")] if rng.random() < 0.4 else []
        for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 5])):
            made.append(self.message("user"))
            made.append(self.message("assistant"))
            while rng.random() < 0.3:
                made.append(self.message("tool"))
        if rng.random() < 0.6:
            made.append(self.message("user"))
        if self.odd():
            rng.shuffle(made)
        return made

    def schema(self, depth=2):
        rng = self.rng
        made = {"type": rng.choice(TYPES)} if rng.random() < 0.9 else {}
        if rng.random() < 0.5:
            made["description"] = self.text()
        if rng.random() < 0.2:
            made["enum"] = [self.value(0) for _ in range(rng.randint(0, 3))]
        if rng.random() < 0.2:
            made["default"] = self.value(1)
        if rng.random() < 0.1:
            made["type"] = rng.sample(TYPES, 2)
        if depth and made.get("type") == "object" or depth == 2:
            made["properties"] = {rng.choice(["location", "unit", "x", "code", "items", "q"]): self.schema(depth - 1)
                                  for _ in range(rng.randint(0, 3))}
            if rng.random() < 0.6:
                made["required"] = rng.sample(sorted(made["properties"]), rng.randint(0, len(made["properties"])))
        if depth and made.get("type") == "array":
            made["items"] = self.schema(depth - 1)
        return made

    def tool(self):
        function = {"name": self.rng.choice(NAMES), "description": self.text(), "parameters": self.schema()}
        if self.rng.random() < 0.2:
            function["return"] = self.schema(1)
        if self.odd():
            function.pop(self.rng.choice(sorted(function)))
        if self.odd():
            return self.rng.choice([function, self.value()])
        return {"type": "function", "function": function}

    def variables(self):
        """All variables of a template. Those that transformers always gives are there, or left out."""
        rng = self.rng
        made = {"messages": self.messages(), "bos_token": "<s>", "eos_token": "</s>",
                "add_generation_prompt": rng.random() < 0.6}
        tools = rng.choice(["none", "null", "list", "list", "list", "empty"])
        if tools != "none":
            made["tools"] = {"null": None, "empty": []}.get(tools, [self.tool() for _ in range(rng.randint(1, 3))])
        if rng.random() < 0.5:
            made["documents"] = None
        elif rng.random() < 0.3:
            made["documents"] = [{"title": self.text(), "text": self.text()} for _ in range(rng.randint(0, 2))]
        for name, values in (("enable_thinking", [True, False]), ("date_string", ["26 Jul 2024"]), ("system", [self.text()]),
                             ("builtin_tools", [["code_interpreter"], ["brave_search", "x"], []]),
                             ("tools_in_user_message", [True, False]), ("functions", [None, self.text(), self.text()]),
                             ("datetime", [self.text()]), ("preserve_thinking", [True])):
            if rng.random() < (0.8 if name in ("functions", "datetime") else 0.15):
                made[name] = rng.choice(values)
        if self.odd():
            made.pop(rng.choice(sorted(made)))
        return made
