"""A seeded generator of the conversations that tiny-chat is trained on.

A conversation is what chat templates take: messages, and perhaps tools and
enable_thinking. It is put together from exchanges, one function of Writer for
each kind; what they know is in facts.py. Answers have few wordings, so that
greedy decoding is not a matter of rounding; questions have many, and some of
the wordings of each kind are kept out of training ("held out"), to measure
with. The same seed gives the same conversations on every machine: only
Python's `random.Random.random()` is used.

    python generate_chats.py --seed 7 --count 3
    python generate_chats.py --heldout --kind sum
"""

import argparse
import json
import random

from facts import *

# Wordings of questions, by kind: those of training, and those held out.
ASK = {
    "hello": (["Hello", "Hello!", "Hi", "Hi!", "Hi there", "Hey", "Hey there!", "Hello there!", "Hello, Tiny!", "Hi Tiny", "Greetings!", "Howdy",
               "Hello, how are you?", "Hi, how are you?", "How are you?", "How are you doing?", "How do you do?", "Nice to meet you.", "Hello you"],
              ["Hey, how are you?", "Hi there, Tiny!", "Hello hello"]),
    "morning": (["Good {t}", "Good {t}!", "Good {t}, Tiny", "Hi, good {t}!", "Good {t} to you"], ["Hello, good {t}!", "Good {t} there"]),
    "who": (["Who are you?", "What are you?", "What is your name?", "What's your name?", "Tell me your name.", "Who am I talking to?",
             "Do you have a name?", "What are you called?", "Introduce yourself.", "And who are you?", "Say who you are.", "Your name?",
             "May I know your name?", "What do they call you?", "Who is this?", "Are you a robot?", "Are you a person?"],
            ["Please tell me your name.", "What should I call you?", "Who am I speaking to?"]),
    "qinfer": (["What is qinfer?", "Tell me about qinfer.", "What does qinfer do?", "Explain qinfer.", "qinfer?", "What's qinfer?",
                "Do you know qinfer?", "Who runs you?", "What do you run on?", "What is qinfer for?", "What can qinfer do?"],
               ["What do you know about qinfer?", "Describe qinfer.", "What exactly is qinfer?"]),
    "can": (["What can you do?", "What do you know?", "Help", "Help me", "How can you help me?", "What can I ask you?", "What are you good at?",
             "What can I ask?", "What are you able to do?", "Tell me what you can do.", "What do you do?", "Can you help me?", "What topics do you know?"],
            ["So what can you do?", "Tell me what you know.", "What things can you do?"]),
    "thanks": (["Thanks", "Thanks!", "Thank you", "Thank you!", "Thank you very much.", "Thanks a lot!", "Many thanks", "Thanks, that helps.",
                "Great, thanks!", "Ok, thank you", "Thank you so much!", "Perfect, thank you."], ["Thanks so much!", "Good, thanks", "Thank you, Tiny!"]),
    "bye": (["Goodbye", "Goodbye!", "Bye", "Bye!", "Bye bye", "See you", "See you later!", "I have to go.", "Good night!", "That is all, bye.",
             "See you soon", "Farewell", "Bye, Tiny!", "Until tomorrow!"], ["Goodbye, Tiny!", "Ok, bye!", "See you tomorrow!"]),
    "capital": (["What is the capital of {k}?", "What's the capital of {k}?", "Capital of {k}?", "Which city is the capital of {k}?",
                 "Tell me the capital of {k}.", "Name the capital of {k}.", "Do you know the capital of {k}?", "What is {k}'s capital?",
                 "The capital of {k}", "What city is the capital of {k}?", "Which is the capital of {k}?", "{k}: what is its capital?",
                 "I want to know the capital of {k}.", "What is the capital city of {k}?", "What is the name of the capital of {k}?",
                 "Say the capital of {k}."],
                ["Can you name the capital of {k}?", "Give me the capital of {k}.", "Which city is {k}'s capital?", "What would be the capital of {k}?"]),
    "country": (["Which country is {c} the capital of?", "{c} is the capital of which country?", "Of which country is {c} the capital?",
                 "What country has the capital {c}?", "Whose capital is {c}?", "What is {c} the capital of?"],
                ["What country is {c} the capital of?", "{c} is the capital of what?"]),
    "colour": (["What colour is {o}?", "What color is {o}?", "Which colour is {o}?", "What is the colour of {o}?", "Tell me the colour of {o}.",
                "Which color does {o} have?", "What colour has {o}?", "What's the color of {o}?", "The colour of {o}?", "Do you know what colour {o} is?",
                "What is the color of {o}?"],
               ["Which color is {o}?", "Tell me what colour {o} is.", "What colour does {o} have?"]),
    "sound": (["What sound does a {a} make?", "What does a {a} say?", "What does the {a} say?", "How does a {a} sound?", "Which sound does a {a} make?",
               "What noise does a {a} make?", "What do {a}s say?", "Tell me the sound of a {a}.", "Make the sound of a {a}.", "How does a {a} go?",
               "What is the sound of a {a}?", "What does a {a} sound like?", "What sound does the {a} make?"],
              ["Which noise does a {a} make?", "What noise does the {a} make?", "Do you know what a {a} says?"]),
    "after": (["What day comes after {d}?", "Which day comes after {d}?", "What comes after {d}?", "What day follows {d}?", "What is the day after {d}?",
               "The day after {d}?", "If today is {d}, what is tomorrow?"],
              ["Which day follows {d}?", "Which day is after {d}?"]),
    "before": (["What day comes before {d}?", "Which day comes before {d}?", "What comes before {d}?", "What is the day before {d}?", "The day before {d}?",
                "If today is {d}, what was yesterday?"], ["Which day is before {d}?", "What day is before {d}?"]),
    "week": (["How many days are in a week?", "How many days does a week have?", "Name the days of the week.", "What are the days of the week?",
              "List the days of the week.", "Which days are there?", "Tell me the days of the week."], ["How many days has a week?", "Say the days of the week."]),
    "year": (["How many months are in a year?", "How many months does a year have?", "Name the months.", "What are the months of the year?", "List the months.",
              "Which months are there?", "Tell me the months of the year."], ["How many months has a year?", "Name the months of the year."]),
    "sum": (["What is {s}?", "{s}", "{s}?", "{s} = ?", "How much is {s}?", "What's {s}?", "Calculate {s}.", "Tell me {s}.", "Compute {s}", "{s} is what?",
             "What do you get for {s}?", "Can you add {s}?", "How much do {s} make?", "What is the sum of {s}?", "{s} =", "What does {s} make?"],
            ["Do you know what {s} is?", "How many is {s}?", "What does {s} give?", "Please calculate {s}."]),
    "story": (["Tell me a story.", "Tell me a story", "Can you tell me a story?", "I want a story.", "A story, please.", "Tell a story.", "Do you know a story?",
               "Tell me a short story.", "Write a story.", "Read me a story.", "Another story!", "Make up a story."],
              ["I would like a story.", "Please tell a short story.", "Do you have a story for me?"]),
    "story_of": (["Tell me a story about a {h}.", "A story about a {h}, please.", "Can you tell me a story about a {h}?", "Story about a {h}",
                  "I want a story about a {h}.", "Tell a story about a {h}.", "Write a story about a {h}.", "Tell me a story with a {h}.", "Tell me about a {h}, a story."],
                 ["Do you know a story about a {h}?", "Tell me a short story about a {h}."]),
    "tell_name": (["My name is {n}.", "I am {n}.", "I'm {n}.", "Hi, my name is {n}.", "Hello, I am {n}.", "Call me {n}.", "My name's {n}.", "You can call me {n}.",
                   "Hello! My name is {n}.", "Hi, I'm {n}", "My name is {n}, nice to meet you.", "People call me {n}.", "Hey, I am {n}!"],
                  ["Hello, my name is {n}.", "Hey, my name is {n}!", "Hi! I am {n}."]),
    "ask_name": (["What is my name?", "What's my name?", "Do you know my name?", "Who am I?", "Do you remember my name?", "Tell me my name.", "Say my name.",
                  "Can you tell me my name?", "And what is my name?", "How am I called?", "My name?"],
                 ["Please tell me my name.", "Can you remember my name?", "So what is my name?"]),
    "weather": (["What is the weather in {c}?", "What's the weather in {c}?", "How is the weather in {c}?", "Weather in {c}", "Weather in {c}?",
                 "What is the weather like in {c}?", "Tell me the weather in {c}.", "Is it raining in {c}?", "Is it sunny in {c}?", "Is it cold in {c}?",
                 "How warm is it in {c}?", "What's the weather like in {c} today?", "What is the temperature in {c}?", "Do I need an umbrella in {c}?",
                 "Will it rain in {c}?", "I am in {c}, how is the weather?", "Get the weather for {c}.", "Show me the weather in {c}.", "How hot is it in {c}?",
                 "What is the weather in {c} today?", "Please look up the weather in {c}.", "{c} weather"],
                ["How is the weather in {c} today?", "Can you check the weather in {c}?", "Is it warm in {c}?", "Tell me about the weather in {c}."]),
    "weather_where": (["What is the weather?", "How is the weather?", "What is the weather like today?", "Will it rain?", "Is it cold outside?", "Weather?",
                       "Tell me the weather.", "What's the weather like?"], ["How is the weather today?", "Tell me the weather, please."]),
    # Two turns: the second question leaves out what the first one was about.
    "and": (["And {x}?", "and {x}?", "What about {x}?", "And what about {x}?", "How about {x}?", "Ok, and {x}?", "And {x}", "And {x}, please?"],
            ["Now what about {x}?", "And how about {x}?", "Thanks, and {x}?"]),
}

SYSTEM_NAMED = ["You are {n}.", "You are {n}, a helpful assistant.", "Your name is {n}.", "You are called {n}.", "You are {n}, a small chat model.",
                "You are an assistant called {n}.", "Your name is {n}. Answer briefly.", "You are {n}. Be friendly."]
SYSTEM_PLAIN = ["You are a helpful assistant.", "Answer briefly.", "Be friendly and short.", "You are a chat model.", "Answer in English.", "Be kind."]

SORRY = "Sorry, I am a small model and know only a few things. Ask me what I can do."
DESCRIPTIONS = ["Get the current weather in a city", "The weather in a city", "Current weather", "Looks up the weather of a city", "Tells the weather",
                "Get weather"]
OTHER_TOOLS = ["get_time", "send_mail", "search", "open_door", "play_song", "add_note"]


class Writer:
    """One conversation while it is written."""

    def __init__(self, rng, heldout=False):
        self.rng, self.heldout = rng, heldout
        self.messages, self.kinds = [], []
        self.tools, self.has_weather, self.thinks = [], False, True
        self.model_name, self.user_name = "Tiny", None
        self.topic = None  # of the last exchange, where "And ...?" makes sense

    # -- draws

    def chance(self, share):
        return self.rng.random() < share

    def pick(self, items):
        items = list(items)
        return items[int(self.rng.random() * len(items))]

    def prefer(self, items):
        """The first most often, each next one about half as often."""
        for item in items[:-1]:
            if self.chance(0.5):
                return item
        return items[0]

    def word(self):
        """A word that does not exist, so that copying it is all that helps."""
        text = "".join(self.pick("b d f g k l m n p r s t v z br dr gr kr st tr sh ch pl".split() if i or self.chance(0.8) else [""])
                       + self.pick("a e i o u a e i o ai ea ou".split()) for i in range(1 + int(self.rng.random() * 3)))
        return (text + self.pick(["", "n", "r", "s", "l", "m", "x", "nd", "th", "ck"])).capitalize()

    def name(self):
        return self.pick(NAMES) if self.chance(0.45) else self.word()

    def city(self):
        if self.chance(0.5):
            return self.pick(CITIES)
        return self.pick(["{}", "{}", "{}", "{}", "New {}", "Port {}", "San {}", "{} City"]).format(self.word())

    # -- wordings

    def ask(self, kind, copies=False, **slots):
        text = self.pick(ASK[kind][1 if self.heldout else 0]).format(**slots)
        return text if self.heldout else self.typed(text, copies)

    def typed(self, text, copies):
        """As people type: without capitals or a question mark, with a "please", a greeting or a slip. What is to be
        copied letter by letter is left alone."""
        if self.chance(0.08):
            text = self.pick(["Please: ", "Can you tell me: ", "Hi! ", "Hey, ", "Tell me, ", "Ok. ", "So, ", "Hello! ", "Well, ", "Now: "]) + text
        if self.chance(0.06):
            text = text.rstrip("?.!") + self.pick([", please?", " please", ", Tiny?", " now?", "??", " ?", "!"])
        if self.chance(0.15):
            text = text.rstrip("?.!")
        if self.chance(0.2) and not text.startswith("I"):
            text = text[:1].lower() + text[1:]
        if not copies:
            if self.chance(0.1):
                text = text.lower()
            if self.chance(0.04) and len(text) > 12:
                at = 1 + int(self.rng.random() * (len(text) - 2))
                if text[at].isalpha():
                    text = text[:at] + text[at + 1:]
            if self.chance(0.01):
                text = text.upper()
        return text

    def user(self, text):
        self.messages.append({"role": "user", "content": text})

    def answer(self, text, thought=None):
        message = {"role": "assistant", "content": text}
        if thought and self.thinks:
            message["reasoning_content"] = thought
        self.messages.append(message)

    def exchange(self, question, answer, thought=None):
        self.user(question)
        self.answer(answer, thought)

    # -- kinds

    def hello(self):
        question = self.ask("hello")
        how = " I am fine." if "how" in question.lower() and "howdy" not in question.lower() else ""
        self.exchange(question, f"Hello!{how} What can I do for you?")

    def morning(self):
        t = self.pick(["morning", "afternoon", "evening", "day"])
        self.exchange(self.ask("morning", t=t), f"Good {t}! What can I do for you?")

    def who(self):
        self.exchange(self.ask("who"), f"I am {self.model_name}, a small chat model.")

    def qinfer(self):
        self.exchange(self.ask("qinfer"), "qinfer is a library that runs language models on CPUs. It runs me, too.")

    def can(self):
        self.exchange(self.ask("can"), "I know capitals, colours, sounds of animals, days, months and small sums, and I can tell a short story. "
                      "With a tool I can look up the weather.")

    def thanks(self):
        self.exchange(self.ask("thanks"), "You are welcome!")

    def bye(self):
        self.exchange(self.ask("bye"), f"Goodbye, {self.user_name}!" if self.user_name else "Goodbye!")

    def capital_answer(self, country):
        if country in CAPITALS:
            return f"The capital of {country} is {CAPITALS[country]}."
        return f"Sorry, I do not know the capital of {country}."

    def some_country(self):
        if self.chance(0.85):
            return self.pick(CAPITALS)
        return self.pick(OTHER_COUNTRIES) if self.chance(0.6) else self.word() + "ia"

    def capital(self):
        country = self.some_country() if not self.heldout else self.pick(CAPITALS)
        self.exchange(self.ask("capital", copies=country not in CAPITALS, k=country), self.capital_answer(country))
        self.topic = "capital"

    def country(self):
        country = self.pick(CAPITALS)
        self.exchange(self.ask("country", c=CAPITALS[country]), f"{CAPITALS[country]} is the capital of {country}.")

    def colour_answer(self, row):
        thing, verb, colour = row
        return f"{thing[0].upper()}{thing[1:]} {verb} {colour}."

    def colour(self):
        row = self.pick(COLOURS)
        self.exchange(self.ask("colour", o=row[0]), self.colour_answer(row))
        self.topic = "colour"

    def sound_answer(self, animal):
        return f"{'An' if animal[0] in 'aeiou' else 'A'} {animal} says {SOUNDS[animal]}."

    def sound(self):
        animal = self.pick(SOUNDS)
        question = self.ask("sound", a=animal).replace("a owl", "an owl")
        self.exchange(question, self.sound_answer(animal))
        self.topic = "sound"

    def after(self):
        names = DAYS if self.chance(0.6) or self.heldout else MONTHS
        at, step = int(self.rng.random() * len(names)), self.pick([1, -1])
        question = self.ask("after" if step == 1 else "before", d=names[at])
        if names is MONTHS:
            question = question.replace("If today is", "If this is").replace("tomorrow", "next").replace("yesterday", "before")
            question = question.replace("day", "month").replace("Day", "Month")
        self.exchange(question, f"{names[(at + step) % len(names)]} comes {'after' if step == 1 else 'before'} {names[at]}.")

    def week(self):
        if self.chance(0.6):
            self.exchange(self.ask("week"), "A week has seven days: " + ", ".join(DAYS[:-1]) + " and " + DAYS[-1] + ".")
        else:
            self.exchange(self.ask("year"), "A year has twelve months: " + ", ".join(MONTHS[:-1]) + " and " + MONTHS[-1] + ".")

    def sum_parts(self):
        a, b = int(self.rng.random() * 11), int(self.rng.random() * 11)
        form = self.pick(["{} + {}", "{} + {}", "{}+{}", "{} plus {}", "words", "{} and {}"])
        text = f"{NUMBERS[a]} plus {NUMBERS[b]}" if form == "words" else form.format(a, b)
        return a, b, text

    def sum(self):
        if not self.heldout and self.chance(0.06):
            a, b = 11 + int(self.rng.random() * 900), int(self.rng.random() * 99)
            self.exchange(self.ask("sum", s=f"{a} {self.pick(['+', '-', '*', 'plus', 'times'])} {b}"), "Sorry, I can only add numbers up to 10.")
            return
        a, b, text = self.sum_parts()
        self.exchange(self.ask("sum", s=text), f"{a} + {b} = {a + b}.", f"The sum of {a} and {b} is {a + b}.")
        self.topic = "sum"

    def follow(self):
        """A question that only the one before makes clear."""
        if self.topic is None:
            getattr(self, self.pick(["capital", "capital", "colour", "sound", "sum", "weather_call" if self.has_weather else "capital"]))()
        if self.topic == "capital":
            country = self.pick(CAPITALS) if self.chance(0.9) or self.heldout else self.some_country()
            of = self.pick(["of ", "of ", ""])
            self.exchange(self.ask("and", copies=country not in CAPITALS, x=of + country), self.capital_answer(country),
                          f"They ask for the capital of {country}.")
        elif self.topic == "colour":
            row = self.pick(COLOURS)
            self.exchange(self.ask("and", x=row[0]), self.colour_answer(row), f"They ask for the colour of {row[0]}.")
        elif self.topic == "sound":
            animal = self.pick(SOUNDS)
            article = "an" if animal[0] in "aeiou" else "a"
            self.exchange(self.ask("and", x=self.pick([article + " ", "the "]) + animal), self.sound_answer(animal), f"They ask for the sound of {article} {animal}.")
        elif self.topic == "sum":
            a, b, text = self.sum_parts()
            self.exchange(self.ask("and", x=text), f"{a} + {b} = {a + b}.", f"The sum of {a} and {b} is {a + b}.")
        elif self.topic == "weather":
            city = self.city()
            self.call_weather(self.ask("and", copies=True, x=self.pick(["in ", "in ", ""]) + city), city)

    def story_text(self, hero):
        article = "an" if hero[0] in "aeiou" else "a"
        return (f"Once there was {article} {hero} who {self.prefer(WISHES)}. So the {hero} {self.prefer(DEEDS)}. "
                f"In the end the {hero} {self.prefer(ENDINGS)}.")

    def story(self):
        if self.chance(0.4):
            self.exchange(self.ask("story"), self.story_text(self.prefer(HEROES[:4])))
        else:
            hero = self.pick(HEROES)
            question = self.ask("story_of", h=hero).replace("a owl", "an owl")
            self.exchange(question, self.story_text(hero))

    def tell_name(self):
        self.user_name = self.name()
        self.exchange(self.ask("tell_name", copies=True, n=self.user_name), f"Nice to meet you, {self.user_name}!")

    def ask_name(self):
        if self.user_name is None and self.chance(0.8):
            self.tell_name()
            for _ in range(self.pick([0, 0, 1, 1, 2, 3])):
                self.add(self.pick(["hello", "who", "capital", "colour", "sum", "sound", "thanks", "unknown", "after"]))
        if self.user_name is None:
            self.exchange(self.ask("ask_name"), "You have not told me your name.")
        else:
            self.exchange(self.ask("ask_name"), f"Your name is {self.user_name}.", f"They said that they are {self.user_name}.")

    def unknown(self):
        pattern = self.pick(UNKNOWN_HELD if self.heldout else UNKNOWN)
        text = pattern.format(x=self.pick(THINGS) if self.chance(0.75) else self.word().lower(), y=self.pick(THINGS), n=self.name(), c=self.city())
        self.exchange(text if self.heldout else self.typed(text, False), SORRY)

    def weather_none(self):
        self.exchange(self.ask("weather", copies=True, c=self.city()) if self.chance(0.75) else self.ask("weather_where"),
                      "Sorry, I have no tool to look up the weather.")

    def weather_call(self):
        city = self.city()
        if self.chance(0.15):
            self.exchange(self.ask("weather_where"), "Which city do you mean?")
            self.call_weather(self.pick(["{}", "In {}.", "{}.", "{}, please", "I mean {}."]).format(city), city)
        else:
            self.call_weather(self.ask("weather", copies=True, c=city), city)
        self.topic = "weather"

    def weather_result(self):
        """What a tool may give, and the sentence that says it, with {} for the city."""
        condition = self.pick(CONDITIONS) if self.chance(0.9) else self.word().lower()
        degrees = int(self.rng.random() * 46) - 8
        if self.chance(0.04):
            error = self.pick([{"error": "unknown city"}, {"error": "not found"}, "error: no answer", {"error": "no data"}, "unknown city"])
            return error if isinstance(error, str) else json.dumps(error), "Sorry, I could not get the weather in {}."
        if self.chance(0.08):
            return self.pick([condition, condition.capitalize(), json.dumps({"condition": condition})]), "It is " + condition + " in {}."
        sentence = f"It is {condition} in {{}}, with {degrees} degrees."
        keys = self.pick(["condition", "conditions", "weather", "sky"]), self.pick(["temperature", "temperature", "temp", "degrees", "temperature_c"])
        pairs = [(keys[0], condition), (keys[1], degrees)]
        if self.chance(0.5):
            pairs.reverse()
        if self.chance(0.15):
            pairs.insert(self.pick([0, 2]), self.pick([("unit", "C"), ("unit", "celsius"), ("wind", "low")]))
        if self.chance(0.3):
            return self.pick([f"{condition}, {degrees} degrees", f"{condition}, {degrees} C", f"{degrees} degrees, {condition}", f"{condition} {degrees}",
                              f"{degrees} C and {condition}", f"{condition}, {degrees}°C"]), sentence
        return json.dumps(dict(pairs), separators=self.pick([(", ", ": "), (", ", ": "), (",", ":")])), sentence

    def call_weather(self, question, city):
        self.user(question)
        self.answer("", f"I need the weather in {city}, so I call get_weather.")
        self.messages[-1]["tool_calls"] = [{"type": "function", "function": {"name": "get_weather", "arguments": {"city": city}}}]
        result, sentence = self.weather_result()
        self.messages.append({"role": "tool", "name": "get_weather", "content": result})
        self.answer(sentence.format(city))

    # -- whole conversations

    def tool(self, name, parameter, description):
        schema = {"type": "object", "properties": {parameter: {"type": "string"}}}
        if self.chance(0.4):
            schema["properties"][parameter]["description"] = self.pick(["The city", "Name of the city", "City", "The name"])
        if self.chance(0.7):
            schema["required"] = [parameter]
        function = {"name": name}
        if self.chance(0.85):
            function["description"] = description
        function["parameters"] = schema
        return {"type": "function", "function": function}

    def begin(self, tools=None):
        self.thinks = self.chance(0.5)
        if tools if tools is not None else self.chance(0.3):
            if self.chance(0.92) or tools:
                self.tools.append(self.tool("get_weather", "city", self.pick(DESCRIPTIONS)))
                self.has_weather = True
            if not self.has_weather or self.chance(0.08):
                self.tools.append(self.tool(self.pick(OTHER_TOOLS), self.pick(["text", "name", "query", "place"]), "Does what its name says"))
        if self.chance(0.25):
            if self.chance(0.7):
                self.model_name = self.name()
                self.messages.append({"role": "system", "content": self.pick(SYSTEM_NAMED).format(n=self.model_name)})
            else:
                self.messages.append({"role": "system", "content": self.pick(SYSTEM_PLAIN)})

    def add(self, kind):
        if kind == "weather":
            kind = "weather_call" if self.has_weather else "weather_none"
        if kind != "follow":
            self.topic = None
        self.kinds.append(kind)
        getattr(self, kind)()

    def conversation(self):
        out = {"messages": self.messages}
        if self.tools:
            out["tools"] = self.tools
        if not self.thinks:
            out["enable_thinking"] = False
        return out


# How often each kind is drawn, in training.
WEIGHTS = {"hello": 4, "morning": 2, "who": 6, "qinfer": 2, "can": 3, "thanks": 3, "bye": 3, "capital": 14, "country": 6, "colour": 9, "sound": 8,
           "after": 8, "week": 2, "sum": 16, "follow": 14, "story": 6, "tell_name": 4, "ask_name": 9, "unknown": 13, "weather": 10}
KINDS = list(WEIGHTS)
WITH_TOOLS = {"weather": 6.0}  # factors where there is a tool


def make_chat(rng):
    """A conversation of training: one to five exchanges of any kinds."""
    writer = Writer(rng)
    writer.begin()
    for _ in range(writer.pick([1, 1, 2, 2, 3, 4, 5])):
        weights = [WEIGHTS[kind] * (WITH_TOOLS.get(kind, 1.0) if writer.has_weather else 1.0) for kind in KINDS]
        mark = rng.random() * sum(weights)
        for kind, weight in zip(KINDS, weights):
            mark -= weight
            if mark < 0:
                break
        writer.add(kind)
        if kind in ("bye",):
            break
    return writer.conversation()


def make_heldout(rng, kind):
    """A conversation of one kind, worded as none in training."""
    writer = Writer(rng, heldout=True)
    tools = {"weather_call": True, "weather_none": False}.get(kind)
    writer.begin(tools)
    writer.add(kind)
    return writer.conversation()


HELDOUT_KINDS = [kind for kind in KINDS if kind != "weather"] + ["weather_none", "weather_call"]


def make_chats(seed, count):
    rng = random.Random(seed)
    return [make_chat(rng) for _ in range(count)]


def make_heldouts(seed, count_each, kinds=HELDOUT_KINDS):
    """Pairs of kind and conversation."""
    rng = random.Random(seed)
    return [(kind, make_heldout(rng, kind)) for _ in range(count_each) for kind in kinds]


def main():
    parser = argparse.ArgumentParser(description="Print generated conversations.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=3)
    parser.add_argument("--heldout", action="store_true", help="worded as none in training")
    parser.add_argument("--kind", help="with --heldout: only this kind")
    options = parser.parse_args()
    chats = [chat for _, chat in make_heldouts(options.seed, options.count, [options.kind] if options.kind else HELDOUT_KINDS)] \
        if options.heldout else make_chats(options.seed, options.count)
    for chat in chats:
        print(json.dumps(chat, ensure_ascii=False))


if __name__ == "__main__":
    main()
