"""A story that is told word by word, and survives its teller. See README.md.

python story.py tell [URL]           tells stories
python story.py ask "a fox" [URL]    asks for one, and shows it while it is told
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator

import pawl

URL = sys.argv[-1] if sys.argv[-1].startswith("http") else "http://127.0.0.1:7033"
PAUSE = float(os.environ.get("PAUSE", "0.1"))  # between two words
worker = pawl.Worker(URL, lease_seconds=int(os.environ.get("LEASE", "30")))


async def model(prompt: str) -> AsyncIterator[str]:
    """Streams what a model says; here it repeats what it is asked."""
    for word in prompt.split():
        await asyncio.sleep(PAUSE)
        yield word + " "


async def write(message: pawl.AsyncMessageWriter, prompt: str) -> int:
    """Writes a chapter into the message, and returns how many words it has."""
    words = 0
    async for word in model(prompt):
        await message.text(word)
        words += 1
    return words


@worker.handler("story")
async def tell(ctx: pawl.AsyncContext, hero: str) -> dict[str, int]:
    async with await ctx.message() as message:
        chapters = {}
        for chapter in ("beginning", "middle", "end"):
            prompt = f"This is the {chapter} of the story of {hero}. " + "It goes on and on. " * 3
            chapters[chapter] = await message.named_step(chapter, write, prompt)
    return chapters


def ask(hero: str) -> None:
    with pawl.Client(URL) as client:
        task = client.create_task("story", hero, reply={})
        [message] = client.list_messages(task_id=task["id"])
        shown = ""
        for content in client.follow_message(message["id"]).contents():
            if not content.text.startswith(shown):
                print("\n--- the teller was interrupted:", flush=True)
                shown = ""
            print(content.text[len(shown) :], end="", flush=True)
            shown = content.text
        print()


if __name__ == "__main__":
    if sys.argv[1] == "ask":
        ask(sys.argv[2])
    else:
        worker.run()
