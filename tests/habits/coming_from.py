#!/usr/bin/env python3
"""What docs/coming-from.md calls by our names is tried: commands and options are run with a small model, settings and
commands of a chat typed at a terminal, fields and routes asked of a server, Python evaluated, names of the C interface
looked up in its headers. What the page says is not here must be unknown.

    coming_from.py QINFER LIBRARY [SERVER [GRAMMAR_LIBRARY]]

Without server or grammar library the rest is tried, and the script ends with 77. Names in backticks in the last column
of a table are ours. An option alone belongs to each command that the column's heading names.
"""

import json
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / "examples" / "models"
CHAT = str(MODELS / "tiny-chat")
ONCE = ("serve", "pull")  # commands that do not end, or that need a network: their options are looked up alone

failures = []
tried = {}


def check(kind, name, is_right, said=""):
    tried[kind] = tried.get(kind, 0) + 1
    if not is_right:
        failures.append(f"{kind} `{name}`: {said}")


def rows(text):
    """(heading of the last column, cells, section) of each row of each table."""
    heading, section = None, ""
    for line in text.splitlines():
        if line.startswith("## "):
            section = line[3:]
        if not line.startswith("|"):
            heading = None
        elif heading is None:
            heading = line.strip("|").split("|")[-1]
        elif not line.startswith("|---"):
            yield heading, [cell.strip() for cell in line.strip("|").split("|")], section


def names_in(cell):
    return re.findall(r"`([^`]+)`", cell)


def words_of(text):
    """A command line, in which a text with spaces is in double quotes; JSON keeps its own."""
    return [word[1:-1] if word.startswith('"') else word for word in re.findall(r'"[^"]*"|\S+', text)]


class Commands:
    """qinfer and qinfer-server, with files for the words in capitals."""

    def __init__(self, qinfer, server, folder):
        self.programs = {"qinfer": qinfer, "qinfer-server": server}
        self.folder, self.helps, self.n_files = folder, {}, 0
        files = {
            "CONVERSATION": '{"messages": [{"role": "user", "content": "Hello!"}]}',
            "SCHEMA": '{"type": "object", "properties": {"a": {"enum": [1]}}, "additionalProperties": false}',
            "LARK": 'start: "yes" | "no"',
            "TEMPLATE": "{% for m in messages %}{{ m.content }} {% endfor %}",
            "KEYS": "a-key",
            "./x.json": '{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}]}',
        }
        self.words = {"MODEL": CHAT, "TEXT": "Hello!", "PROMPT": "Hello!", "FILE": "no-file"}
        for name, text in files.items():
            path = folder / name.removeprefix("./").lower()
            path.write_text(text)
            self.words[name] = name if "/" in name else str(path)

    def filled(self, words):
        out = []
        for word in words:
            if word in ("OUT", "DIR"):
                self.n_files += 1
                word = str(self.folder / f"{word.lower()}{self.n_files}")
                if "dir" in word:
                    os.mkdir(word)
            out.append(self.words.get(word, word))
        return out

    def help(self, program, command=""):
        key = (program, command)
        if key not in self.helps:
            arguments = [self.programs[program], *command.split(), "--help"]
            done = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
            self.helps[key] = done.stdout if done.returncode == 0 else ""
        return self.helps[key]

    def knows(self, program, command, option):
        return re.search(rf"^  (-\w,)?{re.escape(option)}[ ,{{\n]", self.help(program, command), re.M) is not None

    def run(self, words):
        done = subprocess.run(
            [self.programs[words[0]], *self.filled(words[1:])], capture_output=True, text=True, cwd=self.folder,
            stdin=subprocess.DEVNULL, timeout=300,
        )
        return done.returncode == 0, done.stderr

    def try_line(self, line):
        words = words_of(line)
        program, command = words[0], words[1] if words[0] == "qinfer" else ""
        if self.programs[program] is None:
            return
        check("command", line, self.help(program, command) != "", "there is none")
        for option in words[1:]:
            if re.fullmatch(r"--?[a-z][a-z-]*", option):
                check("option", f"{line} {option}", self.knows(program, command, option), "not in its help")
        if program == "qinfer" and command not in ONCE and len(words) > 2 and line != "qinfer chat MODEL":
            check("run", line, *self.run(words))


def try_options(commands, heading, options):
    """Options of a table, all in one call of each command, but for those that exclude each other."""
    for line in names_in(heading):
        words = line.split()
        program, command = words[0], words[1] if len(words) > 1 else ""
        for option in options:
            known = all(commands.knows(program, command, word) for word in words_of(option) if word.startswith("-"))
            check("option", f"{line} {option}", known, "not in its help")
        if program != "qinfer":
            continue
        start = ["qinfer", command, "MODEL", "TEXT"]
        alone = [option for option in options if option.split()[0] in ("--schema", "--lark", "--template")]
        together = [word for option in options if option not in alone for word in words_of(option)]
        check("run", f"{line} with {len(options)} options", *commands.run(start + together))
        for option in alone:
            check("run", f"{line} {option}", *commands.run([*start, "-n", "16", *words_of(option)]))


class Terminal:
    """`qinfer chat` at a pseudoterminal."""

    def __init__(self, qinfer, folder):
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.environ.update(XDG_STATE_HOME=str(folder), HOME=str(folder), TERM="dumb", COLUMNS="200")
            os.execv(qinfer, [qinfer, "chat", CHAT])
        self.read()

    def read(self, seconds=60):
        """What is said until a prompt waits for the next line."""
        said, end = b"", time.monotonic() + seconds
        while time.monotonic() < end and not re.search(rb"(^|\n)> $", re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]|\r", b"", said)):
            if select.select([self.terminal], [], [], 0.2)[0]:
                try:
                    said += os.read(self.terminal, 65536)
                except OSError:
                    break
        return said.decode(errors="replace")

    def say(self, line):
        os.write(self.terminal, line.encode() + b"\n")
        return self.read()

    def close(self):
        os.close(self.terminal)
        os.waitpid(self.process, 0)


def try_chat(commands, folder, lines):
    names = re.findall(r"/[a-z?]+", commands.help("qinfer", "chat").split("Commands:")[1].split("Examples:")[0])
    terminal = Terminal(commands.programs["qinfer"], folder)
    for line in lines:
        command, *rest = line.split()
        check("chat command", line, command in names, f"not one of {names}")
        if command != "/set":
            continue
        said = terminal.say(line)
        wanted = "there is no" if rest[0] == "system" else "from the next answer on"
        check("setting", line, (wanted in said) != (rest[0] == "system"), said)
    terminal.close()


class Server:
    def __init__(self, commands, options=()):
        arguments = [commands.programs["qinfer-server"], CHAT, "--port", "0", "--log", "info", *options]
        self.process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
        self.said, self.url = "", ""
        while not self.url and (line := self.process.stderr.readline()):
            self.said += line
            if found := re.search(r'"event":"ready".*"(https?://127\.0\.0\.1:\d+)"', line):
                self.url = found.group(1)

    def ask(self, method, path, body=None):
        request = urllib.request.Request(
            self.url + path, None if body is None else json.dumps(body).encode(), {"Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def field(self, text):
        fields = {"max_tokens": 4} | json.loads("{" + text + "}")
        if "echo" in fields:
            return self.ask("POST", "/v1/completions", {"model": "m", "prompt": "Hello!", **fields})
        messages = [{"role": "user", "content": "Hello!"}]
        return self.ask("POST", "/v1/chat/completions", {"model": "m", "messages": messages, **fields})

    def end(self):
        self.process.terminate()
        status = self.process.wait(timeout=60)
        self.process.stderr.close()
        return status


def try_server(commands, options, fields, routes, refused, absent):
    words = [word for option in options if "FILE" not in option and "--port" not in option for word in words_of(option)]
    server = Server(commands, commands.filled(words))
    check("run", "qinfer-server with all options", server.url, server.said)
    check("end", "qinfer-server with all options", server.end() == (0 if server.url else 1), "its status")
    server = Server(commands)
    for text in fields:
        status, said = server.field(text)
        check("field", text, status == 200, said)
    for line in routes:
        method, path = line.split()
        status, said = server.ask(method, path, {} if method == "POST" else None)
        check("route", line, status == 200 or (method == "POST" and status == 400), f"{status} {said}")
    for name in refused:
        status, said = server.field(f'"{name}": 1')
        check("refused field", name, status == 400 and name in said, f"{status} {said}")
    for path in absent:
        statuses = [server.ask(method, path, body)[0] for method, body in (("GET", None), ("POST", {}))]
        check("absent route", path, statuses == [404, 404], str(statuses))
    check("end", "qinfer-server", server.end() == 0, "its status")


def reranker(folder):
    """The small model of stories, told to compare "Yes" with "No"."""
    stories = MODELS / "tiny-stories"
    shutil.copytree(stories, folder)
    vocabulary = json.loads((stories / "tokenizer.json").read_text())["model"]["vocab"]
    (folder / "1_LogitScore").mkdir()
    score = {"true_token_id": vocabulary["Yes"], "false_token_id": vocabulary["No"]}
    (folder / "1_LogitScore" / "config.json").write_text(json.dumps(score))
    modules = [{"path": "", "type": "Transformer"}, {"path": "1_LogitScore", "type": "LogitScore"}]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")
    return folder


def try_python(cells, folder, grammar):
    sys.path.insert(0, str(ROOT / "bindings" / "python" / "src"))
    import qinfer

    model, ranker = qinfer.Model(CHAT), qinfer.Model(reranker(folder / "ranker"))
    extras = (ROOT / "bindings" / "python" / "pyproject.toml").read_text()
    for at, cell in enumerate(cells):
        session = qinfer.Session(model)
        session.append("Hello!")
        session.generate(1)
        names = {
            "qinfer": qinfer, "model": model, "encoder": model, "ranker": ranker, "session": session, "path": CHAT,
            "chat": qinfer.Chat(model), "prompts": ["Hello!", "What is 3 + 4?"], "collect": print_nothing,
            "texts": ["The cat is here.", "Crash!"], "messages": [{"role": "user", "content": "Hello!"}],
            "hook": print_nothing, "out": folder / f"packed{at}", "cpus": sorted(os.sched_getaffinity(0))[:1],
        }
        for text in cell:
            if "Grammar" in text and not grammar:
                continue
            extra = re.fullmatch(r"qinfer\[(\w+)\]", text)
            try:
                if extra:
                    check("extra", text, re.search(rf"^{extra.group(1)} = ", extras, re.M), "not in pyproject.toml")
                else:
                    eval(text, names)
                    check("Python", text, True)
            except Exception as error:
                check("Python", text, False, repr(error))


def print_nothing(*_):
    return None


def check_c(name):
    headers = "".join(path.read_text() for path in sorted((ROOT / "include" / "qinfer").glob("*.h")))
    struct, _, member = name.partition(".")
    check("C", name, re.search(rf"\b{struct}\b", headers), "not in the headers")
    if member:
        body = re.search(rf"typedef struct {struct} {{(.*?)\n}} {struct};", headers, re.S)
        check("C", name, body and re.search(rf"\b{member}\b", body.group(1)), f"{struct} has none")


def sorted_out(page):
    """Our names by kind, and those that the page says are unknown here."""
    found = {kind: [] for kind in ("lines", "chat", "routes", "fields", "C", "Python", "refused", "absent", "unknown")}
    options = {}
    for heading, cells, section in rows(page):
        there, here = cells[0], cells[-1]
        if section == "What is not here":
            found["unknown"] += [name for name in names_in(there) if name.startswith("-")]
            continue
        if here.startswith("no:"):
            known = [name for name in names_in(there) if "..." not in name]
            found["absent"] += [name for name in known if name.startswith("/")]
            found["unknown"] += [name for name in known if name.startswith("-")]
            found["refused"] += [name for name in known if re.fullmatch("[a-z_]+", name) and "ollama" not in there]
            continue
        python = []
        for name in names_in(here):
            if re.match(r"qinfer(-server)? ", name):
                found["lines"].append(name)
            elif name.startswith("-"):
                options.setdefault(heading, []).append(name)
            elif name.startswith("/"):
                found["chat"].append(name)
            elif re.match(r"(GET|POST) /", name):
                found["routes"].append(name)
            elif name.startswith('"'):
                found["fields"].append(name)
            elif re.match(r"qinfer_|QINFER_", name):
                found["C"].append(name)
            elif re.match(r"(qinfer[.\[]|(model|session|chat)\.)", name):
                python.append(name)
            elif name not in ("HF_*", "HF_HUB_CACHE", "model"):
                check("name", name, False, "of no kind that this script knows")
        found["Python"].append(python)
    return found, options


def main():
    qinfer, library, server, grammar = (sys.argv[1:] + ["", ""])[:4]
    os.environ.update(QINFER_LIBRARY=library, **({"QINFER_GRAMMAR_LIBRARY": grammar} if grammar else {}))
    found, options = sorted_out((ROOT / "docs" / "coming-from.md").read_text())
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        commands = Commands(os.path.abspath(qinfer), os.path.abspath(server) if server else None, folder)
        for line in found["lines"]:
            commands.try_line(line)
        of_server = []
        for heading, some in options.items():
            if "qinfer-server" in heading:
                of_server = some
            if "qinfer-server" not in heading or server:
                usable = [option for option in some if grammar or option.split()[0] not in ("--schema", "--lark")]
                check("heading", heading, names_in(heading), "options, but no command")
                try_options(commands, heading, usable)
        every = "\n".join(commands.help("qinfer", command) for command in ("chat", "generate", "bench", "plan"))
        every += commands.help("qinfer-server") if server else ""
        for option in found["unknown"]:
            check("unknown", option, not re.search(rf"^  (-\w,)?{re.escape(option)}\b", every, re.M), "it is here")
        try_chat(commands, folder, found["chat"])
        for name in found["C"]:
            check_c(name)
        try_python(found["Python"], folder, grammar)
        if server:
            try_server(commands, of_server, found["fields"], found["routes"], found["refused"], found["absent"])
    for failure in failures:
        print("FAILED:", failure)
    print(", ".join(f"{count} of {kind}" for kind, count in sorted(tried.items())))
    if failures:
        sys.exit(1)
    if not server or not grammar:
        print("skipped: machine: qinfer-server or libqinfer_grammar was not built")
        sys.exit(77)


main()
