"""Files of bench/results: what CPU they are about, how they are read, checked, named and written.

bench/results/README.md describes their format. Nothing is measured here.
"""
import datetime
import json
import pathlib
import platform
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench/results"
FORMAT = 1

# Of qinfer_cpu_features, which spells them as the kernel does.
FEATURES = ("avx", "f16c", "fma", "avx2", "avx_vnni", "avx512f", "avx512bw", "avx512dq", "avx512vl",
            "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "asimd", "asimdhp", "asimddp",
            "i8mm", "bf16", "sve", "sve2")

# vendor, family, models (None: any), steppings (None: any), family's slug
FAMILIES = (
    ("GenuineIntel", 6, (60, 63, 69, 70), None, "haswell"),
    ("GenuineIntel", 6, (61, 71, 79, 86), None, "broadwell"),
    ("GenuineIntel", 6, (85,), (0, 1, 2, 3, 4), "skylake-x"),
    ("GenuineIntel", 6, (85,), (5, 6, 7), "cascade-lake"),
    ("GenuineIntel", 6, (85,), (10, 11), "cooper-lake"),
    ("GenuineIntel", 6, (106, 108), None, "ice-lake"),
    ("GenuineIntel", 6, (143,), None, "sapphire-rapids"),
    ("GenuineIntel", 6, (207,), None, "emerald-rapids"),
    ("GenuineIntel", 6, (173, 174), None, "granite-rapids"),
    ("AuthenticAMD", 23, range(0x00, 0x30), None, "zen1"),
    ("AuthenticAMD", 23, None, None, "zen2"),
    ("AuthenticAMD", 25, (*range(0x10, 0x20), *range(0x60, 0x80), *range(0xa0, 0xb0)), None, "zen4"),
    ("AuthenticAMD", 25, None, None, "zen3"),
    ("AuthenticAMD", 26, None, None, "zen5"),
)


class BadFile(Exception):
    """A file that is not as bench/results/README.md says, with the field at fault."""


# ---- CPUs ----

def family_of(machine):
    """The slug of a CPU family: what the file says, or what vendor, family, model and stepping mean."""
    if machine.get("family_slug"):
        return machine["family_slug"]
    for vendor, family, models, steppings, slug in FAMILIES:
        if machine.get("vendor") == vendor and machine.get("family") == family and \
                (models is None or machine.get("model") in models) and \
                (steppings is None or machine.get("stepping") in steppings):
            return slug
    return re.sub(r"[^a-z0-9]+", "-", (machine.get("cpu") or "unknown-cpu").lower()).strip("-")


def name_of(slug):
    """"zen4" is Zen 4, "cascade-lake" Cascade Lake."""
    return re.sub(r"(?<=[a-z])(?=\d)", " ", slug.replace("-", " ")).title()


def machine_here(cores):
    """This machine's CPU, as Linux tells."""
    values = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines():
        name, _, value = line.partition(":")
        values[name.strip()] = value.strip()

    def number(name):
        return int(values[name]) if values.get(name, "").isdigit() else None

    flags = values.get("flags", values.get("Features", "")).split()
    return {"cpu": values.get("model name"), "vendor": values.get("vendor_id"), "family": number("cpu family"),
            "model": number("model"), "stepping": number("stepping"), "cores": cores,
            "features": [feature for feature in FEATURES if feature in flags]}


def system_here():
    """Without what follows the numbers, which may name who built it."""
    return f"{platform.system()} {re.match('[0-9.]*', platform.release()).group()}"


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")



# ---- Reading and writing ----

TEXTS = ("date", "title", "commit", "command")
SAMPLE = {"what": str, "engine": str, "round": int, "tokens_per_second": float, "seconds": float, "work": float,
          "bound": str, "bandwidth_before_gb_s": float, "bandwidth_after_gb_s": float, "peak_before_gflops": float, "peak_after_gflops": float, "slow_phase": bool,
          "share_others": float}
SUMMARY = {"what": str, "engine": str, "unit": str, "median": float, "lowest": float, "highest": float, "runs": int,
           "p90": float, "p99": float, "share": dict, "faster_than": dict}


def check_entry(entry, fields, where):
    for key, value in entry.items():
        wanted = fields.get(key)
        if wanted is None:
            raise BadFile(f"{where}: unknown field {key}")
        if value is not None and not isinstance(value, (int, float) if wanted is float else wanted):
            raise BadFile(f"{where}: {key} is {value!r}, not a {wanted.__name__}")
    for key in ("what", "engine"):
        if not entry.get(key):
            raise BadFile(f"{where}: {key} is missing")


def strings_of(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from strings_of(part)


def check(run, name):
    """Raises BadFile unless this is a file's content under that name."""
    if not isinstance(run, dict):
        raise BadFile("it is no JSON object")
    if run.get("format") != FORMAT:
        raise BadFile(f"format is {run.get('format')!r}, not {FORMAT}")
    for key in TEXTS:
        if not isinstance(run.get(key), str) or not run[key]:
            raise BadFile(f"{key} is missing")
    if not isinstance(run.get("machine"), dict):
        raise BadFile("machine is missing")
    if not run.get("samples") and not run.get("summary"):
        raise BadFile("there are neither samples nor a summary")
    for kind, fields in (("samples", SAMPLE), ("summary", SUMMARY)):
        for i, entry in enumerate(run.get(kind, [])):
            check_entry(entry, fields, f"{kind}[{i}]")
    for i, sample in enumerate(run.get("samples", [])):
        if (sample.get("tokens_per_second") or sample.get("seconds") or 0) <= 0:
            raise BadFile(f"samples[{i}]: neither tokens_per_second nor seconds")
    for text in strings_of(run):
        if re.search(r"(^|\s)/(home|root|tmp|usr|work|build|opt|mnt|srv)\b", text):
            raise BadFile(f"{text!r} names a folder of one machine")
    if not name.startswith(stem(run)):
        raise BadFile(f"its name does not begin with {stem(run)}")


def stem(run):
    return f"{run['date'][:10]}-{family_of(run['machine'])}-{run['commit']}"


def load_all(folder=RESULTS):
    """Every run, oldest first; its file's name is under "file"."""
    runs = []
    for path in sorted(folder.glob("*.json")):
        try:
            run = json.loads(path.read_text())
            check(run, path.name)
        except (ValueError, BadFile) as error:
            raise BadFile(f"bench/results/{path.name}: {error}") from error
        runs.append(run | {"file": path.name})
    return sorted(runs, key=lambda run: (run["date"], run["file"]))


def dump(run):
    """JSON with one sample on each line."""
    parts = []
    for key, value in run.items():
        if key in ("samples", "summary"):
            lines = ",\n".join("  " + json.dumps(entry) for entry in value)
            parts.append(f" {json.dumps(key)}: [\n{lines}\n ]")
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def keep(run, folder=RESULTS, kind=""):
    """Writes a run under its own name; one of the same day, CPU, commit and kind gets a number, none is overwritten."""
    base = stem(run) + (f"-{kind}" if kind else "")
    path, number = folder / f"{base}.json", 1
    while path.exists():
        number += 1
        path = folder / f"{base}-{number}.json"
    check(run, path.name)
    path.write_text(dump(run))
    return path
