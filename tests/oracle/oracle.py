"""What the comparisons share: cases that a number gives again, counts of what was compared, and where the data is."""
import os
import pathlib
import random
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
MAX_SHOWN = 5  # differences of one comparison that are printed


def data_folders():
    """Where test data is, as the tests look for it (CONTRIBUTING.md)."""
    named = os.environ.get("QINFER_TEST_DATA")
    folders = ([pathlib.Path(named)] if named else []) + [ROOT / "build" / "test-data"]
    return [folder for folder in folders if folder.is_dir()]


def model_files(name):
    """(title, path) of the files of this name beside the example models, and beside tokenizers and models of the data."""
    found = [(f"examples/models/{path.parent.name}", path) for path in (ROOT / "examples" / "models").glob("*/" + name)]
    for folder in data_folders():
        for path in (*folder.glob("*/" + name), *folder.glob("*/*/" + name)):
            found.append((f"data {path.parent.relative_to(folder)}", path))
    return sorted(found)


def shorten(text, around=0, room=60):
    """A part of a text, written so that every character shows."""
    text = ascii(text[max(0, around - room // 2) : around + room])
    return text if len(text) < 6 * room else text[: 6 * room] + "..."


def describe(ours, theirs):
    """Where two texts or lists part, and what is there in each."""
    at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
    if isinstance(ours, str) and isinstance(theirs, str):
        return f"at character {at} of {len(theirs)}: qinfer {shorten(ours, at)}, expected {shorten(theirs, at)}"
    return f"at element {at} of {len(theirs)}: qinfer {ours[at:at + 6]}, expected {theirs[at:at + 6]}"


class LeftOut(Exception):
    """A comparison that cannot run here."""


class Comparison:
    """One comparison: its cases are numbered, and the seed and the number decide what a case is."""

    def __init__(self, name, seed, seconds, only_case=None):
        self.name, self.seed, self.only_case = name, seed, only_case
        self.begin, self.seconds = time.monotonic(), seconds
        self.compared = self.differ = 0
        self.notes = {}

    def cases(self):
        """(number, random numbers of this case) while there is time, at least one."""
        number = self.only_case or 0
        while True:
            yield number, random.Random(f"{self.seed} {self.name} {number}")
            number += 1
            if self.only_case is not None or time.monotonic() - self.begin >= self.seconds:
                return

    def check(self, equal, what, difference):
        """Counts one comparison. difference: a function that says by how much it is off, and where."""
        self.compared += 1
        if not equal:
            self.differ += 1
            if self.differ <= MAX_SHOWN:
                print(f"{self.name}: DIFFERS, {what}: {difference()}")
            elif self.differ == MAX_SHOWN + 1:
                print(f"{self.name}: more differences are counted only")

    def same(self, ours, theirs, what):
        self.check(ours == theirs, what, lambda: describe(ours, theirs))

    def left_out(self, why):
        """Something that was not compared; said once, with how often."""
        self.notes[why] = self.notes.get(why, 0) + 1

    def end(self):
        """Prints the counts; whether all is well."""
        for why, count in sorted(self.notes.items()):
            print(f"{self.name}: left out: {why}" + (f" ({count} times)" if count > 1 else ""))
        print(f"{self.name}: {self.compared} compared, {self.differ} differ", flush=True)
        if self.compared == 0:
            print(f"{self.name}: FAILED, nothing was compared", file=sys.stderr)
        return self.differ == 0 and self.compared > 0
