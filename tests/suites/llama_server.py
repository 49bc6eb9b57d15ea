#!/usr/bin/env python3
"""Takes the place of llama-server in its tests: turns its arguments into those of qinfer-server, and becomes that. Nothing
is done to requests. What has no counterpart is left out: a limit of new tokens, a seed and a temperature for requests
without one, batches, slots beyond their number, and where the model comes from.
"""
import os
import pathlib
import shutil
import sys
import tempfile

TAKES_VALUE = {"--port", "--host", "--temp", "--seed", "--model", "--model-url", "--model-draft", "--hf-repo", "--hf-file",
               "--batch-size", "--ubatch-size", "--threads", "--pooling", "--alias", "--tags", "--ctx-size", "--parallel",
               "-ctk", "-ctv", "-fa", "--n-predict", "--slot-save-path", "--grp-attn-n", "--grp-attn-w", "--lora",
               "--spec-type", "--api-key", "--spec-draft-n-max", "--spec-draft-n-min", "--spec-synth-len",
               "--spec-synth-rates", "--reasoning-format", "--reasoning", "--chat-template", "--chat-template-file",
               "--mmproj-url", "--media-path", "--sleep-idle-seconds", "--cache-ram", "--models-dir", "--models-max",
               "--models-preset", "--cors-origins", "--n-gpu-layers", "--tools", "--tools-runtime",
               "--mcp-servers-config", "--mcp-servers-json"}


def values_of(arguments):
    values, rest = {}, list(arguments)
    while rest:
        name = rest.pop(0)
        values[name] = rest.pop(0) if name in TAKES_VALUE else ""
    return values


def model_of(values, work):
    """The model under the name by which it is asked for, since a server calls it by the name of its folder, and with the
    chat template that is asked for, where that is a template and not the name of one."""
    name = values.get("--alias", "stories260K").split(",")[0].replace("/", "_")
    made = pathlib.Path(tempfile.mkdtemp(dir=work)) / name
    shutil.copytree(os.environ["QINFER_SUITE_MODEL"], made, symlinks=True)
    template = values.get("--chat-template", "")
    if "--chat-template-file" in values:
        template = pathlib.Path(values["--chat-template-file"]).read_text()
    if " " in template:
        (made / "chat_template.jinja").write_text(template)
    return made


def main():
    values, work = values_of(sys.argv[1:]), pathlib.Path(os.environ["QINFER_SUITE_WORK"])
    command = [os.environ["QINFER_SUITE_SERVER"], model_of(values, work), "--threads", "1", "--port", values["--port"]]
    if "--host" in values:
        command += ["--host", values["--host"]]
    if "--parallel" in values:
        command += ["--max-running", values["--parallel"]]
    if "--api-key" in values:
        keys = work / f"keys-{values['--port']}"
        keys.write_text("\n".join(values["--api-key"].split(",")) + "\n")
        command += ["--keys", keys]
    os.execv(command[0], [str(word) for word in command])


main()
