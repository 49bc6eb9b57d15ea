"""Lets torch be imported without the libraries of CUDA.

The Python registry has torch for Linux on x86-64 only as it was built for CUDA: a wheel of 0.5 GB that asks for 3 GB more,
the libraries of GPUs, without which it cannot be loaded, even where it computes on the CPU alone. For each of these that
is missing a small library of the same name is made beside torch's own, whose functions say that there is no device.

    python torch_stubs.py      (needs cc, nm and readelf; does nothing where nothing is missing)
"""
import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile

# Names in libraries of CUDA begin so.
SYMBOL = re.compile(r"(?:__cu|cu|nccl|nv)\w+")
VERSIONS = {"libnvshmem_host.so.3": "NVSHMEM"}  # elsewhere the version of the symbols is called as the library is


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def missing_libraries(folder, libraries):
    """What torch's libraries need, and neither they nor the system have."""
    needed = set()
    for library in libraries:
        needed.update(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "--dynamic", str(library))))
    system = output("/sbin/ldconfig", "--print-cache")
    installed = {file.name for file in folder.parent.parent.glob("nvidia/*/lib/*")}
    return sorted(n for n in needed if not (folder / n).exists() and n not in installed and f"\t{n} " not in system)


def symbols_of(libraries):
    """Functions of CUDA's libraries that torch's refer to."""
    names = set()
    for library in libraries:
        for line in output("nm", "--dynamic", "--undefined-only", str(library)).splitlines():
            name = line.split()[-1].partition("@")[0]
            if SYMBOL.fullmatch(name):
                names.add(name)
    return sorted(names)


def result_of(name):
    """Those that register kernels when a library is loaded give null, all others CUDA_ERROR_NO_DEVICE, or its text."""
    if name.endswith(("String", "Name")):
        return '"there is no device: this library is a stub"'
    return 0 if name.startswith("__cuda") else 100


def main():
    found = importlib.util.find_spec("torch")  # does not import it
    if found is None:
        sys.exit("torch is not installed")
    folder = pathlib.Path(found.origin).parent / "lib"
    libraries = sorted(folder.glob("lib*.so*"))
    missing = missing_libraries(folder, libraries)
    symbols = symbols_of(libraries)
    with tempfile.TemporaryDirectory() as work:
        source, script = pathlib.Path(work, "stub.c"), pathlib.Path(work, "stub.map")
        source.write_text("".join(f"long {name}(void) {{ return (long){result_of(name)}; }}\n" for name in symbols))
        for name in missing:
            script.write_text(f"{VERSIONS.get(name, name)} {{ global: *; }};\n")
            subprocess.run(["cc", "-w", "-fno-builtin", "-shared", "-fPIC", f"-Wl,-soname,{name}",
                            f"-Wl,--version-script,{script}", "-o", str(folder / name), str(source)], check=True)
    print(f"torch: {len(missing)} libraries of CUDA are stubs")


if __name__ == "__main__":
    main()
