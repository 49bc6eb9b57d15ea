#!/usr/bin/env python3
"""Writes docs/qinfer.1, the manual page of the command, out of what `qinfer --help` and the help of its commands say.

    make_man.py QINFER [--check]

With --check nothing is written, and a page that is out of date is an error: the tests run it so.
"""
import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).with_name("qinfer.1")
EXAMPLES = """\
.SH EXAMPLES
.TP
Continue a text:
qinfer generate examples/models/tiny\\-stories "Once upon a time"
.TP
Talk with a model that the Hugging Face cache has:
qinfer chat Qwen/Qwen3\\-0.6B
.TP
Ask once, with a file as part of the question:
qinfer chat model.gguf "Summarise this:" < notes.txt
.TP
See what loading will take, before it is taken:
qinfer plan model.gguf \\-\\-context 4096 \\-\\-sessions 8
.TP
Quantise a checkpoint to one file that loads by mapping:
qinfer pack Qwen3\\-0.6B qwen3.packed \\-\\-weights q4_k_m
"""
ENVIRONMENT = """\
.SH ENVIRONMENT
The library reads none. The command looks for models in the Hugging Face cache, which HF_HUB_CACHE, HF_HOME and
XDG_CACHE_HOME place, and keeps the lines that were typed in a conversation below XDG_STATE_HOME.
.SH SEE ALSO
The library's contract is its header, qinfer.h.
"""


def escaped(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in (".", "'") else text


def items_of(lines):
    """(what, description) of each entry of a list: an entry begins at column 2, its description at column 30."""
    items = []
    for line in lines:
        if re.match(r"  \S", line):
            found = re.match(r"  (.+?)(?:\s{2,}(\S.*))?$", line) if len(line) > 30 else None
            what, said = (line[2:30].rstrip(), line[30:]) if line[29:30] == " " and len(line) > 30 else (line.strip(), "")
            if found and not said and found.group(2):
                what, said = found.group(1), found.group(2)
            items.append([what, said])
        else:
            items[-1][1] = (items[-1][1] + " " + line.strip()).strip()
    return items


def sections_of(text):
    """The parts of a help text: what comes before the first heading is under ""."""
    sections, at = {"": []}, ""
    for line in text.splitlines():
        heading = re.fullmatch(r"([A-Z][a-z]+):", line)
        if heading:
            at = heading.group(1)
            sections[at] = []
        elif line.strip():
            sections[at].append(line)
    return sections


def listed(lines):
    out = []
    for what, said in items_of(lines):
        what, _, others = what.removesuffix(" REQUIRED").partition(" Excludes: ")
        if others:
            said += f" (not with {others.replace(' ', ' or ')})"
        out += [".TP", f"\\fB{escaped(what)}\\fR", escaped(said)]
    return out


def help_of(command, *arguments):
    return subprocess.run([command, *arguments, "--help"], capture_output=True, text=True, check=True).stdout


def page(command):
    main = sections_of(help_of(command))
    version = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    out = ['.\\" Made by docs/make_man.py out of what the command says of itself. Do not edit.',
           f'.TH QINFER 1 "" "qinfer {version}" "User commands"', ".SH NAME",
           "qinfer \\- run language models on CPUs", ".SH SYNOPSIS",
           ".B qinfer\n\\fICOMMAND\\fR [\\fIOPTIONS\\fR] [\\fIARGUMENTS\\fR]", ".SH DESCRIPTION",
           "Loads Hugging Face checkpoints, GGUF files and files that", ".B qinfer pack",
           "wrote, and runs them with the library qinfer. Each command has a list of options of its own."]
    commands = items_of(main.pop("Subcommands")[: -1])
    exit_status = help_of(command).strip().splitlines()[-1]
    out += [".SH OPTIONS", *listed(main["Options"]), ".SH COMMANDS"]
    for name, said in commands:
        own = sections_of(help_of(command, name))
        usage = own[""][1].removeprefix("Usage: ")
        out += [f".SS {name}", escaped(said) + ".", ".PP", escaped(usage)]
        out += listed(own.get("Positionals", [])) + listed(own["Options"])
    out += [".SH EXIT STATUS", escaped(exit_status.removeprefix("Exit status: "))]
    return "\n".join(out) + "\n" + EXAMPLES + ENVIRONMENT


def main():
    made = page(sys.argv[1])
    if "--check" not in sys.argv:
        PAGE.write_text(made)
    elif made != PAGE.read_text():
        sys.exit(f"FAILED: {PAGE.name} is not what the command says of itself: run docs/make_man.py")


main()
