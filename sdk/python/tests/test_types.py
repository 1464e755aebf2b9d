"""Programs that are right pass mypy and Pyright, and those that are wrong do not: typed.py."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).with_name("typed.py")
WRONG = {n for n, line in enumerate(FILE.read_text().split("\n"), 1) if "# wrong:" in line}


def test_mypy(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(tmp_path), str(FILE)]
    out = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    found = [line for line in out.stdout.split("\n") if ": error: " in line]
    assert {int(line.split(":")[1]) for line in found if line.startswith(str(FILE))} == WRONG, out.stdout + out.stderr
    assert len(WRONG) == 7


def test_pyright() -> None:
    if shutil.which("pyright") is None:
        pytest.skip("pyright is missing: ./run installs it")
    command = ["pyright", "--outputjson", "--pythonpath", sys.executable, str(FILE)]
    out = subprocess.run(command, capture_output=True, text=True, cwd=FILE.parent)
    found = json.loads(out.stdout)["generalDiagnostics"]
    errors = [d for d in found if d["severity"] == "error"]
    assert {d["range"]["start"]["line"] + 1 for d in errors} == WRONG, found
