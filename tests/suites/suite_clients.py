"""Clients that others made, each as its page says to use it: openai and anthropic in Python and JavaScript, litellm, and
the AI SDK with its providers openai-compatible, openai and anthropic. See client_python.py and client_node.mjs.

The server asks for a key. The JavaScript packages are those of package.json, with the versions that it says.
"""
import json
import pathlib
import shutil
import subprocess

from suites import HERE, clean_environment, is_installed, note_installed

KEY = "a-key"


def node_packages(context):
    """The folder that has them."""
    path = context.work / "node"
    if not is_installed(path, HERE / "package.json"):
        print("installing package.json ...", flush=True)
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        shutil.copy(HERE / "package.json", path)
        subprocess.run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock",
                        "--loglevel=error"], cwd=path, check=True, stdin=subprocess.DEVNULL)
        note_installed(path, HERE / "package.json")
    return path


def checks(command, folder, log):
    with open(log, "w") as told:
        done = subprocess.run(command, cwd=folder, env=clean_environment(LITELLM_LOCAL_MODEL_COST_MAP="True"),
                              stdout=subprocess.PIPE, stderr=told, timeout=900, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"test"')]
    if done.returncode != 0 or not lines:
        raise RuntimeError(f"{command[1]} has ended with status {done.returncode}, see {log}")
    return {line["test"]: line["problem"] for line in lines}


def run(context):
    folder: pathlib.Path = context.folder("clients")
    (folder / "keys").write_text(KEY + "\n")
    python, packages = context.environment("clients") / "python", node_packages(context)
    with context.serve(context.model("tiny-chat"), "--keys", folder / "keys") as url:
        return {**checks([python, HERE / "client_python.py", url, KEY], folder, folder / "python.log"),
                **checks(["node", HERE / "client_node.mjs", url, KEY], packages, folder / "node.log")}
