"""LangChain's standard tests of integrations, with langchain-openai against tiny-chat: chat completions, the same with
structured output by forced calls, responses, and embeddings. See langchain_cases.py.

The model knows one tool and short answers, so expected-langchain.txt leaves out tests that need it to choose another tool
by itself, and says so.
"""
import shutil
import subprocess

from suites import HERE, clean_environment, junit_results


def run(context):
    folder = context.folder("langchain")
    shutil.copy(HERE / "langchain_cases.py", folder)
    with context.serve(context.model("tiny-chat")) as url:
        command = [context.environment("langchain") / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o",
                   "asyncio_mode=auto", "-o", "asyncio_default_test_loop_scope=session", "-o",
                   "asyncio_default_fixture_loop_scope=session", f"--junitxml={folder / 'junit.xml'}", "langchain_cases.py"]
        environment = clean_environment(QINFER_SUITE_URL=url, LANGSMITH_TRACING="false")
        with open(folder / "log", "w") as log:
            subprocess.run(command, cwd=folder, env=environment, stdout=log, stderr=log, timeout=1800)
    return junit_results(folder / "junit.xml")
