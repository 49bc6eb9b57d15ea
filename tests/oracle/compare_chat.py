"""Chat templates over random conversations: qinfer against jinja2, set up by transformers itself.

Templates are those of the data and of the example models, and the small ones of tests/fixtures/chat_cases.json. Each
case gives the same JSON to both. Equal means the same text, or that both refuse.
"""
import copy
import ctypes
import datetime
import json
import re

import qinfer
from conversations import Maker
from oracle import FIXTURES, ROOT, data_folders, describe, model_files, shorten
from qinfer import _abi
from qinfer._library import lib, read_text, sized
from transformers.utils import chat_template_utils

NOW = datetime.datetime(2024, 7, 26, 9, 5, 7)
# What is not the same in two runs of Python: addresses of objects.
ADDRESS = re.compile(r" at 0x[0-9a-f]+|<function|<class|<module|<built-in")
# Of literals that are neither text nor list. jinja2 takes such a slice while it compiles, where errors are dropped.
NO_TEXT = re.compile(r"messages\[\d+\]\.content\[\d+\] is of type .*: models are run on text alone")
LITERAL_SLICE = re.compile(r"\{\{ \((?:[0-9.e]+|\{\})\)\[.*:.*\] \}\}")
SMALL = [0, 1, -1, 2, 3, 5, 8, 0.5, 2.5, -1.25, 8.375]  # jinja2 computes 2 ** n for any n, whatever memory that takes
REFUSED = object()


def whole_templates():
    """(title, source) of templates that models bring."""
    for folder in data_folders():
        for path in sorted((folder / "chat-templates").glob("*.jinja")):
            yield path.name, path.read_text(encoding="utf-8")
        for path in sorted((folder / "models").glob("*.gguf")):
            yield from of_model(path.name, path)
    for title, path in model_files("chat_template.jinja"):
        yield title, path.read_text(encoding="utf-8")
    for title, path in model_files("tokenizer_config.json"):
        found = json.loads(path.read_text(encoding="utf-8")).get("chat_template")
        if isinstance(found, str):
            yield title, found


def of_model(title, path):
    try:
        yield title, qinfer.Model(path, weights=False).chat_template()
    except qinfer.NotFoundError:
        return


def small_templates():
    """(title, source, variables) of the fixture's cases."""
    fixture = json.loads((FIXTURES / "chat_cases.json").read_text(encoding="utf-8"))
    for number, case in enumerate(fixture["cases"]):
        yield f"chat_cases.json {number} {case['t'][:80]!r}", case["t"], fixture["variables"][case["v"]]


def changed(rng, variables):
    """The variables of a small template, some of them with other values of about their kind."""
    maker, made = Maker(rng, SMALL), copy.deepcopy(variables)
    for name in made:
        if rng.random() < 0.5:
            continue
        if isinstance(made[name], str):
            made[name] = maker.text()
        elif isinstance(made[name], list) and made[name] and isinstance(made[name][0], str):
            made[name] = [maker.text() for _ in range(rng.randint(0, 4))]
        elif isinstance(made[name], (int, float)) and not isinstance(made[name], bool):
            made[name] = rng.choice(SMALL)
        elif rng.random() < 0.2:
            made[name] = maker.value(2)
    return made


def of_jinja(source, variables):
    """The text, or REFUSED with the reason."""
    try:
        compiled = chat_template_utils._compile_jinja_template(source)
        compiled.globals["strftime_now"] = NOW.strftime
        return compiled.render(**variables), None
    except Exception as error:  # whatever a template raises: Python's and jinja2's errors
        return REFUSED, f"{type(error).__name__}: {error}"


def of_qinfer(model, source, variables, flags=0):
    """The same of qinfer: by the C ABI, for the binding's render_chat() leaves out `tools` that are null or empty.
    flags: QINFER_CHAT_*."""
    data = json.dumps(variables, ensure_ascii=False).encode("utf-8")
    options = sized(_abi.qinfer_chat_options, flags=flags, template_text=source.encode("utf-8"),
                    now=NOW.isoformat().encode())

    def render(text, capacity, out_n, err):
        return lib.qinfer_chat_render(model.native, data, len(data), ctypes.byref(options), text, capacity, out_n,
                                      None, 0, None, err)

    try:
        return read_text(render, room=1 << 16), None
    except qinfer.QinferError as error:
        return REFUSED, str(error)


def has_other_parts(variables):
    """Whether a message has a part that is no text."""
    messages = variables.get("messages")
    contents = [m.get("content") for m in messages if isinstance(m, dict)] if isinstance(messages, list) else []
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return any(isinstance(part, dict) and part.get("type", "text") != "text" for part in parts)


def check(comparison, model, source, variables, where):
    """Templates may change lists that they are given: each side has its own."""
    theirs, their_reason = of_jinja(source, {**comparison.tokens, **json.loads(json.dumps(variables))})
    ours, our_reason = of_qinfer(model, source, variables)
    if theirs is not REFUSED and ADDRESS.search(theirs):
        comparison.left_out("texts with addresses of Python's objects")
        return
    if LITERAL_SLICE.fullmatch(source) and ours is REFUSED and theirs == "":
        comparison.left_out("known to differ: a slice of a literal number is undefined in jinja2, here it is refused")
        return

    if ours is REFUSED and NO_TEXT.search(our_reason) and has_other_parts(variables):
        comparison.left_out("images, sound and video, which qinfer refuses by name and templates write in their own ways")
        return

    def difference():
        if theirs is REFUSED:
            found = f"jinja2 refuses ({their_reason}), qinfer gives {shorten(ours)}"
        elif ours is REFUSED:
            found = f"qinfer refuses ({our_reason}), jinja2 gives {shorten(theirs)}"
        else:
            found = describe(ours, theirs)
        return f"{found}\n    {json.dumps(variables)[:1500]}"

    comparison.check(ours == theirs, where, difference)
    comparison.refused += theirs is REFUSED


def compare(comparison):
    model = qinfer.Model(ROOT / "examples" / "models" / "tiny-chat", weights=False)
    comparison.refused = 0
    # What a model calls these is there unless the variables say otherwise.
    comparison.tokens = {}
    for name in ("bos_token", "eos_token"):
        text, _ = of_qinfer(model, "{{ %s is defined }} {{ %s }}" % (name, name), {})
        if text.startswith("True "):
            comparison.tokens[name] = text.removeprefix("True ")
    whole, small = list(whole_templates()), list(small_templates())
    print(f"chat: {len(whole)} templates of models, {len(small)} small ones", flush=True)
    for number, rng in comparison.cases():
        if rng.random() < 0.7:
            title, source = rng.choice(whole)
            variables = Maker(rng).variables()
        else:
            title, source, variables = rng.choice(small)
            variables = changed(rng, variables)
        check(comparison, model, source, variables, f"case {number}, {title}")
    print(f"chat: jinja2 refused {comparison.refused} of them")
