"""Measures the asyncio worker beside Go's: 64 no-op items at once, on a server on SQLite.

    python bench/worker.py [--items 20000] [--rounds 3] [--check]

Both workers run in processes of their own, in turn, on one server. It prints the rate of each round
and the median ratio; with --check it exits 1 if Python's is below 60 % of Go's.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pawl
import pawl.testing

ROOT = Path(__file__).resolve().parents[3]
TARGET = 0.6


async def work(url: str, kind: str) -> float:
    """Completes all items of the type, and returns the seconds that it took."""
    worker = pawl.Worker(url, concurrency=64, drain=True)

    @worker.handler(kind)
    async def nothing() -> None:
        return None

    began = time.perf_counter()
    await worker.run_async()
    return time.perf_counter() - began


def fill(client: pawl.Client, kind: str, items: int) -> None:
    """Creates items, as tasks of one item each."""
    for at in range(0, items, 5000):
        for result in client.create_tasks([{"type": kind} for _ in range(min(5000, items - at))]):
            result.get()


def measured(command: list[str], items: int) -> float:
    """The items per second of a worker's process, which prints its seconds."""
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return items / float(out)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--items", type=int, default=20000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--work", nargs=2, metavar=("URL", "TYPE"), help="only complete the items of a type")
    args = parser.parse_args()
    if args.work:
        print(asyncio.run(work(*args.work)))
        return 0
    ratios: list[float] = []
    with tempfile.TemporaryDirectory() as folder, pawl.testing.serve() as server:
        program = f"{folder}/goworker"
        subprocess.run(["go", "build", "-o", program, "./sdk/python/bench/goworker"], cwd=ROOT, check=True)
        with server.client() as client:
            for n in range(args.rounds):
                rates = {}
                for name, command in (("go", [program]), ("python", [sys.executable, __file__, "--work"])):
                    fill(client, f"{name}-{n}", args.items)
                    rates[name] = measured([*command, server.url, f"{name}-{n}"], args.items)
                ratios.append(rates["python"] / rates["go"])
                print(f"go {rates['go']:.0f} items/s, python {rates['python']:.0f} items/s, ratio {ratios[-1]:.2f}")
    ratio = statistics.median(ratios)
    print(f"python / go = {ratio:.2f} (target {TARGET})")
    return 1 if args.check and ratio < TARGET else 0


if __name__ == "__main__":
    sys.exit(main())
