"""python -m qinfer: the command line of qinfer, as the package brings it, or else as it is found on the path."""

import os
import shutil
import sys
from pathlib import Path


def main() -> None:
    beside = Path(__file__).parent / "qinfer"
    program = str(beside) if beside.exists() else shutil.which("qinfer")
    if program is None:
        sys.exit("qinfer: the command line is neither in this package nor on the path")
    os.execv(program, ["qinfer", *sys.argv[1:]])


main()
