"""Writes src/pawl/_sync from src/pawl/_async: one text for both clients.

python tools/unasync.py            writes the files
python tools/unasync.py --check    exits 1 if a file is not fresh
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

SRC = Path(__file__).resolve().parents[1] / "src" / "pawl"
HEAD = "# Made of src/pawl/_async/{name} by tools/unasync.py: do not edit.\n"

# In this order. Words are whole words; the texts of comments are changed too.
WORDS = [
    (r"    @overload\n    async def [^@]*?: \.\.\.\n\n", ""),  # they tell functions that are async from others
    (r"\bawait ", ""),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\b__a(enter|exit|iter|next)__\b", r"__\1__"),
    (r"\bAwaitable\[(\w+)\] \| (\w+)", r"\2"),
    (r"\bAsync(?!Iterator|Generator)([A-Z]\w*)\b", r"\1"),
    (r"\bhttpx\.AsyncClient\b", "httpx.Client"),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\bAsyncGenerator\[([^\]]+), None\]", r"Generator[\1, None, None]"),
    (r"\bStopAsyncIteration\b", "StopIteration"),
    (r"\baclose\b", "close"),
    (r"\baread\b", "read"),
    (r"\baiter_(bytes|lines|raw)\b", r"iter_\1"),
    (r"\b_async\b", "_sync"),
]


def sync_of(name: str, text: str) -> str:
    """The sync text of an async one."""
    for pattern, to in WORDS:
        text = re.sub(pattern, to, text)
    return HEAD.format(name=name) + text


def main() -> int:
    stale = []
    for path in sorted((SRC / "_async").glob("*.py")):
        if path.name in ("__init__.py", "_io.py"):
            continue
        to, text = SRC / "_sync" / path.name, sync_of(path.name, path.read_text())
        if to.exists() and to.read_text() == text:
            continue
        stale.append(path.name)
        if "--check" not in sys.argv:
            to.write_text(text)
    if "--check" in sys.argv:
        for name in stale:
            print(f"src/pawl/_sync/{name} is not fresh: python tools/unasync.py", file=sys.stderr)
        return 1 if stale else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
