#!/usr/bin/env python3
"""Writes docs/qinfer.1, the manual page of the command, out of what `qinfer --help` and the help of its commands say, and
docs/qinfer-server.1 out of what `qinfer-server --help` says.

    make_man.py QINFER [QINFER_SERVER] [--check]

With --check nothing is written, and a page that is out of date is an error: the tests run it so.
"""
import pathlib
import re
import subprocess
import sys

FOLDER = pathlib.Path(__file__).parent
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
TYPING = """\
A line that ends with \\ goes on in the next one, and so does all from \"\"\" to the next \"\"\". Several lines that are
pasted are one message. Ctrl-C ends an answer and keeps what came of it; what is typed while an answer comes stays for
the next line; Ctrl-D ends the conversation. Tab completes commands and files, Ctrl-R searches the lines that were typed.

Replies are drawn as the model's generation_config.json or GGUF file says, with llama.cpp's defaults (temperature 0.8,
top-k 40, top-p 0.95, min-p 0.05) where it says nothing; options go before, and /stats tells which holds. /retry adds 1
to the seed. /save NAME keeps a conversation, which /load NAME and --resume NAME go on with; a name that has a slash or
a point is a file. When the context is full, /undo, /reset or a larger --context helps; with --overflow drop-oldest the
oldest turns are left out of what the model sees, but not of what /save writes, and each time that is told."""
ENVIRONMENT = """\
.SH ENVIRONMENT
The library reads none. The command looks for models in the Hugging Face cache, which HF_HUB_CACHE, HF_HOME and
XDG_CACHE_HOME place, and keeps the lines that were typed in a conversation, and what /save keeps by name, below
XDG_STATE_HOME (~/.local/state). /edit calls the program that VISUAL or EDITOR names for messages of several lines. qinfer pull
reads HF_ENDPOINT, HF_TOKEN, HF_TOKEN_PATH, HF_HUB_OFFLINE and what libcurl reads of proxies.
.SH SEE ALSO
.BR qinfer\\-server (1)
.PP
The library's contract is its header, qinfer.h.
"""
SERVER = """\
.SH SIGNALS
.TP
SIGTERM, SIGINT
No new connections; requests have the seconds of \\-\\-drain\\-s to end, and then it ends. A second one ends them at once.
.TP
SIGHUP
The file of keys is read again, and so are certificate and key of \\-\\-tls\\-cert and \\-\\-tls\\-key.
.SH EXIT STATUS
0 it was told to end, 1 failed, others: called wrongly
.SH FILES
.TP
/etc/default/qinfer\\-server
The model and the options of the service qinfer\\-server.service.
.TP
/etc/default/qinfer\\-server\\-NAME
Those of qinfer\\-server@NAME.service: as many services as models.
.TP
/var/lib/qinfer\\-server, /var/lib/qinfer\\-server\\-NAME
Where the service may write, for \\-\\-keep and \\-\\-park.
.SH ENVIRONMENT
.TP
NOTIFY_SOCKET
Where the service manager is told that requests are served, that files are read again, and that the server ends.
.SH EXAMPLES
.TP
Answer programs of this machine:
qinfer\\-server model.gguf
.TP
Answer those of others that have a key, and go on with their conversations after a restart:
qinfer\\-server model.gguf \\-\\-host 0.0.0.0 \\-\\-keys keys \\-\\-keep kept
.TP
The same over HTTPS:
qinfer\\-server model.gguf \\-\\-host 0.0.0.0 \\-\\-keys keys \\-\\-tls\\-cert cert.pem \\-\\-tls\\-key key.pem
.TP
Run it as a service, once /etc/default/qinfer\\-server names a model:
systemctl enable \\-\\-now qinfer\\-server
.SH SEE ALSO
.BR qinfer (1),
.BR systemctl (1)
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
            # A description of what is too long for its column begins on the next line; a form in brackets is not cut.
            is_cut = line[29:30] == " " and len(line) > 30 and line[:30].count("[") == line[:30].count("]")
            what, said = (line[2:30].rstrip(), line[30:]) if is_cut else (line.strip(), "")
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
        what, _, others = what.removesuffix(" REQUIRED").removesuffix("{false}").partition(" Excludes: ")
        if others:
            said += f" (not with {others.replace(' ', ' or ')})"
        out += [".TP", f"\\fB{escaped(what)}\\fR", escaped(said)]
    return out


def help_of(command, *arguments):
    return subprocess.run([command, *arguments, "--help"], capture_output=True, text=True, check=True).stdout


def title(name, command):
    version = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    return ['.\\" Made by docs/make_man.py out of what the command says of itself. Do not edit.',
            f'.TH {name} 1 "" "qinfer {version}" "User commands"']


def page(command):
    main = sections_of(help_of(command))
    out = [*title("QINFER", command), ".SH NAME",
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
        if "Commands" in own:
            out += [".PP", "Lines that begin with a slash are commands of the conversation:"]
            for line in own["Commands"]:
                what, said = re.fullmatch(r"  (\S.*?)\s{2,}(\S.*)", line).groups()
                out += [".TP", f"\\fB{escaped(what)}\\fR", escaped(said)]
            out += [".PP", *(escaped(line) or ".PP" for line in TYPING.splitlines())]
        examples = own.get("Example", []) + own.get("Examples", [])
        out += [".PP", ".EX", *(escaped(line.strip()) for line in examples), ".EE"]
    out += [".SH EXIT STATUS", escaped(exit_status.removeprefix("Exit status: "))]
    return "\n".join(out) + "\n" + EXAMPLES + ENVIRONMENT


def server_page(command, server):
    said = sections_of(help_of(server))
    out = [*title("QINFER\\-SERVER", command), ".SH NAME", "qinfer\\-server \\- serve a language model over HTTP",
           ".SH SYNOPSIS", ".B qinfer\\-server\n[\\fIOPTIONS\\fR] \\fIMODEL\\fR", ".SH DESCRIPTION",
           "Answers OpenAI's interface over HTTP for one model on CPUs, and Anthropic's messages. It is also what",
           ".B qinfer serve", "starts.", ".SH OPTIONS", *listed(said["Positionals"]), *listed(said["Options"])]
    return "\n".join(out) + "\n" + SERVER


def main():
    checks = "--check" in sys.argv
    command, *servers = [argument for argument in sys.argv[1:] if argument not in ("", "--check")]
    made = {"qinfer.1": page(command)}
    for server in servers:
        made["qinfer-server.1"] = server_page(command, server)
    for name, text in made.items():
        if not checks:
            (FOLDER / name).write_text(text)
        elif text != (FOLDER / name).read_text():
            sys.exit(f"FAILED: {name} is not what the command says of itself: run docs/make_man.py")


main()
