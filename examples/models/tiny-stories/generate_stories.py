"""A seeded generator of short children's stories.

The model in this folder is trained on these stories and on nothing else, so
there is no data set to license. A story is an opening (who, where, what they
like), a plot from plots.py, and sometimes a closing line. Everything that must
stay the same through a story (names, pronouns, the lost toy, the friend who
helps) is bound to a slot once, before any text is made; the wording around it
is drawn anew each time.

The same seed gives the same stories on every machine: only Python's own
`random.Random` is used, and only through its `random()` method.

    python generate_stories.py --seed 7 --count 3
"""

import argparse
import random
import re

from plots import PLOTS

GIRLS = "Lily Mia Anna Lucy Emma Sara Rosie Nora Zoe Molly Ella Grace Ruby Ivy Clara Amy".split()
BOYS = "Tom Ben Max Sam Tim Leo Jack Finn Peter Noah Oscar Toby Eli Hugo Theo Will".split()
SHE_PETS = "Daisy Poppy Coco Hazel Willow Fern Clover Bella Maple Pearl".split()
HE_PETS = "Pip Bruno Otto Rusty Biscuit Barley Pepper Felix Milo Oliver".split()

KID_HOMES = ["in a small house by the sea", "in a little town", "in a red house on a hill", "near a big forest",
             "on a farm", "in a house with a green door", "next to a wide river", "at the end of a long road"]
KID_PLACES = [("the park", "in the park"), ("the garden", "in the garden"), ("the beach", "on the beach"),
              ("the lake", "by the lake"), ("the field", "in the field"), ("the hill", "on the hill"),
              ("the farm", "on the farm"), ("the playground", "in the playground")]
PET_PLACES = [("the meadow", "in the meadow"), ("the pond", "by the pond"), ("the river", "by the river"),
              ("the hill", "on the hill"), ("the field", "in the field"), ("the old bridge", "by the old bridge")]

# Which animal lives where; an animal hero's friend is another of these.
ANIMALS = [("bunny", "in a warm hole under a tree"), ("bear", "in a cave in the woods"), ("mouse", "in a tiny house in the grass"),
           ("fox", "in a den at the edge of the forest"), ("kitten", "in an old mill"), ("squirrel", "in a tall oak tree"),
           ("hedgehog", "under a pile of leaves"), ("goat", "on a green hill"), ("lamb", "in a wide meadow"), ("pig", "on a sunny farm")]

GROWNUPS = [("mom", "she"), ("dad", "he"), ("grandma", "she"), ("grandpa", "he")]
WEATHER = ["sunny", "warm", "bright", "cold", "windy", "quiet"]
COLORS = ["red", "blue", "yellow", "green", "purple", "orange", "white", "pink"]
TOYS = ["ball", "doll", "toy car", "teddy bear", "drum", "toy boat", "kite", "wagon", "toy train", "puzzle"]
KID_HOBBIES = ["play outside", "sing", "draw", "dance", "run and jump", "look at the clouds", "read books", "climb trees"]
PET_HOBBIES = ["play outside", "sing", "dance", "run and jump", "look at the clouds", "pick flowers", "roll down the hill"]
TRAITS = ["kind", "happy", "brave", "curious", "clever", "gentle", "shy", "cheerful"]

OPENINGS = [
    "Once upon a time, there was a little {kind} named {H}. [{He} was a very {trait} {kind}.|{H} was {trait}, and {he} loved to {hobby}.] [{He} lived {home} with {his} {g}.|{He} lived {home}.|]",
    "Once upon a time, there was a little {kind} named {H}. {He} lived {home}. [{H} loved to {hobby}.|{He} was a very {trait} {kind}.|]",
    "Once upon a time, there was a {trait} little {kind} named {H}. {He} lived {home}[ and loved to {hobby}|].",
    "Once upon a time, a little {kind} named {H} lived {home}. {He} loved to {hobby}.",
    "{H} was a little {kind} who lived {home}. {He} was very {trait}.",
    "There once was a {trait} little {kind} who lived {home}. {His} name was {H}.",
    "Long ago, a {trait} little {kind} named {H} lived {home} with {his} {g}.",
    "In a land far away, there lived a little {kind} named {H}. {He} loved to {hobby}.",
]
# Most stories begin with the first two lines; they are what the demo prompt asks for.
OPENING_WEIGHTS = [42, 20, 12, 9, 6, 5, 3, 3]
CLOSINGS = ["", "The end.", "And they all lived happily ever after.", "It was a very good day."]
CLOSING_WEIGHTS = [70, 18, 6, 6]

ALTERNATIVES = re.compile(r"\[([^\[\]]*)\]")
SLOT = re.compile(r"\{(\w+)\}")


class Chooser:
    """Draws that favour the early entries of a list a little.

    With equal odds for every name or wording, the best two continuations of a
    trained model would be nearly tied all the time, and greedy decoding would
    depend on the last bits of the arithmetic. A gentle slope avoids that.
    """

    def __init__(self, rng):
        self.rng = rng

    def weighted(self, items, weights):
        mark = self.rng.random() * sum(weights)
        for item, weight in zip(items, weights):
            mark -= weight
            if mark < 0:
                return item
        return items[-1]

    def pick(self, items):
        return self.weighted(items, [1.0 / (rank + 2) ** 0.75 for rank in range(len(items))])


def pronouns(prefix, she):
    """The pronoun slots of one character; names carry the prefix ('', 'f')."""
    words = dict(he="she", him="her", his="her", himself="herself", hers="hers") if she else \
        dict(he="he", him="him", his="his", himself="himself", hers="his")
    slots = {prefix + key: word for key, word in words.items()}
    slots.update({prefix + key.capitalize(): words[key].capitalize() for key in ("he", "his")})
    return slots


def cast(choose):
    """Draws the hero, the friend, the grown-up and the props: all slots shared by the plots."""
    slots = {}
    person = choose.weighted([True, False], [60, 40])
    hero_she = choose.weighted([True, False], [53, 47])
    friend_she = choose.weighted([False, True], [53, 47])
    girls, boys = (GIRLS, BOYS) if person else (SHE_PETS, HE_PETS)
    slots["H"] = choose.pick(girls if hero_she else boys)
    slots["F"] = choose.pick([n for n in (girls if friend_she else boys) if n != slots["H"]])
    slots.update(pronouns("", hero_she))
    slots.update(pronouns("f", friend_she))
    slots["fHe"], slots["fHis"] = slots["fhe"].capitalize(), slots["fhis"].capitalize()
    if person:
        slots["kind"] = "girl" if hero_she else "boy"
        slots["fkind"] = "girl" if friend_she else "boy"
        slots["home"] = choose.pick(KID_HOMES)
        slots["place"], slots["at"] = choose.pick(KID_PLACES)
        slots["hobby"] = choose.pick(KID_HOBBIES)
        slots["fdesc"] = "{His} friend {F}"
    else:
        slots["kind"], slots["home"] = choose.pick(ANIMALS)
        slots["fkind"] = choose.pick([a for a, _ in ANIMALS if a != slots["kind"]])
        slots["place"], slots["at"] = choose.pick(PET_PLACES)
        slots["hobby"] = choose.pick(PET_HOBBIES)
        slots["fdesc"] = "{His} friend {F} the {fkind}"
    # The same in the middle of a sentence.
    slots["fdescm"] = slots["fdesc"].replace("{His}", "{his}")
    slots["g"], slots["ghe"] = choose.pick(GROWNUPS)
    slots["ghis"] = "her" if slots["ghe"] == "she" else "his"
    slots["G"] = slots["g"].capitalize()
    slots["g_the"], slots["g_low"] = "{His} {g}", "{his} {g}"
    slots["w"] = choose.pick(WEATHER)
    slots["color"], slots["toy"] = choose.pick(COLORS), choose.pick(TOYS)
    slots["thing"] = "{color} {toy}"  # lazily: a plot's table may bring its own toy
    slots["trait"] = choose.pick(TRAITS)
    return slots


def expand(text, slots, choose):
    """Fills the slots (a slot's value may hold slots), then settles the alternatives."""
    while SLOT.search(text):
        text = SLOT.sub(lambda m: slots[m.group(1)], text)
    while ALTERNATIVES.search(text):  # innermost first
        text = ALTERNATIVES.sub(lambda m: choose.pick(m.group(1).split("|")), text)
    return text


def tidy(text):
    """Repairs what joining pieces leaves behind: spaces, 'a apple', small letters after a stop."""
    text = re.sub(r" +", " ", text)
    text = re.sub(r" (?=[.,!?])", "", text)
    text = re.sub(r" ?\n ?", "\n", text).strip()
    text = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text)
    text = re.sub(r"(?<=[.!?] )[a-z]", lambda m: m.group().upper(), text)
    return text


def make_story(rng):
    """One story, as text with blank lines between its paragraphs."""
    choose = Chooser(rng)
    slots = cast(choose)
    text, table = PLOTS[choose.pick(list(PLOTS))]
    if table:
        # A mouse does not rescue "a little mouse", nor keep a pet of its own kind.
        slots.update(choose.pick([row for row in table if slots["kind"] not in (row.get("an"), row.get("pet"))]))
    opening = choose.weighted(OPENINGS, OPENING_WEIGHTS)
    story = opening + " " + text if text.startswith(("{He} had", "But ", "More than")) else opening + "\n\n" + text
    closing = choose.weighted(CLOSINGS, CLOSING_WEIGHTS)
    if closing:
        story += " " + closing
    return tidy(expand(story, slots, choose))


def make_stories(seed, count):
    """`count` different stories from one seed."""
    rng = random.Random(seed)
    seen, stories = set(), []
    while len(stories) < count:
        story = make_story(rng)
        if story not in seen:
            seen.add(story)
            stories.append(story)
    return stories


def main():
    parser = argparse.ArgumentParser(description="Print generated stories.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=3)
    options = parser.parse_args()
    for story in make_stories(options.seed, options.count):
        print(story, end="\n\n----\n\n")


if __name__ == "__main__":
    main()
