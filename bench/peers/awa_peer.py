"""awa for ../peers.go, in the set-up of its README: rows are copied in batches, several claimers take large batches.

See serve.cjs for what is read and written.
"""

import asyncio
import json
import sys
from dataclasses import dataclass

import awa


@dataclass
class Bench:
    to: str


async def main() -> None:
    url, payload = sys.argv[1:]
    job = Bench(**json.loads(payload))
    client = awa.AsyncClient(url, max_connections=20)
    await client.migrate()
    await client.install_queue_storage()
    done = 0

    @client.task(Bench, queue="bench")
    async def work(_) -> None:
        nonlocal done
        done += 1

    async def create(n: int) -> None:
        left = n

        async def some() -> None:
            nonlocal left
            while left > 0:
                k = min(1000, left)
                left -= k
                await client.enqueue_many_copy([job] * k, queue="bench")

        await asyncio.gather(*(some() for _ in range(4)))

    async def drain(n: int) -> None:
        await client.start(
            [{"name": "bench", "max_workers": 256, "claimers": 4, "claim_batch_size": 512}],
            poll_interval_ms=10,
        )
        while done < n:
            await asyncio.sleep(0.001)
        await client.shutdown()  # which waits for the completions

    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        what, n = line.split()
        await {"create": create, "drain": drain}[what](int(n))
        print("done", flush=True)
    await client.close()


asyncio.run(main())
