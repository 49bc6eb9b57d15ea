#!/usr/bin/env python3
"""Writes library_scripts.cpp out of what the Python package tokenizers (0.23) does with each character.

    python3 src/text/make_library_scripts.py > src/text/library_scripts.cpp

The library has no function that tells a character's script, but UnicodeScripts cuts between two characters of different
ones, and before none of no script.
"""
import textwrap

import tokenizers

END = 0x110000
SURROGATES = range(0xD800, 0xE000)  # which no text has
split = tokenizers.pre_tokenizers.UnicodeScripts().pre_tokenize_str


def cuts(left, right):
    return len(split(left + right)) > 1


def main():
    names, runs, numbers = [], [], {}
    previous = None  # a character, and its number
    for code in range(END):
        if code in SURROGATES:
            number = 0
        else:
            character = chr(code)
            if not cuts("a", character) and not cuts("\u03b1", character):
                number = 0
            elif previous and previous[1] and not cuts(previous[0], character):
                number = previous[1]
            else:
                number = next((n for n, name in enumerate(names, 1) if not cuts(name, character)), None)
                if number is None:
                    names.append(character)
                    number = len(names)
            previous = character, number
        if not runs or runs[-1][1] != number:
            runs.append((code, number))
    assert len(names) < 256
    values = textwrap.fill(", ".join(str(code << 8 | number) for code, number in runs) + ",", 118, initial_indent="  ",
                           subsequent_indent="  ")
    print(f"""// See library_scripts.h. Written by make_library_scripts.py, not by hand.
#include "text/library_scripts.h"

// clang-format off
namespace qinfer::text {{

const std::uint32_t kScriptRuns[{len(runs)}] = {{
{values}
}};
const std::size_t kScriptRunCount = {len(runs)};

}}  // namespace qinfer::text""")


if __name__ == "__main__":
    main()
