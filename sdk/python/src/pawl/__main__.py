"""python -m pawl: runs the program `pawl` that came with the package, or that is on PATH."""

from __future__ import annotations

import os
import subprocess
import sys

from .testing import BinaryNotFound, find_binary


def main() -> int:
    """Runs the program with the arguments of this one."""
    try:
        program = find_binary()
    except BinaryNotFound as e:
        print(e, file=sys.stderr)
        return 127
    if os.name == "posix":
        os.execv(program, [program, *sys.argv[1:]])
    return subprocess.call([program, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
