"""What mypy and Pyright make of programs: test_types.py runs both on this file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pawl

if TYPE_CHECKING:
    from typing_extensions import assert_type


@dataclass
class Mail:
    to: str


async def fetch(url: str, *, tries: int = 1) -> Mail:
    """An async function of a step."""
    return Mail(url)


def count(words: list[str]) -> int:
    """A plain function of a step."""
    return len(words)


async def say(message: pawl.AsyncMessageWriter, text: str) -> int:
    """An async function of a step of a message."""
    await message.text(text)
    return len(text)


def write(message: pawl.MessageWriter, text: str) -> int:
    """A plain function of a step of a message."""
    message.text(text)
    return len(text)


class Tools:
    async def ask(self) -> str:
        return ""


async def handler(ctx: pawl.AsyncContext) -> None:
    """Steps of an async handler."""
    mail = await ctx.step("a", fetch, "u", tries=2)
    assert_type(mail, Mail)
    assert_type(await ctx.step("b", count, ["x"]), int)
    assert_type(await ctx.step("c", lambda: 1), int)
    assert_type(await ctx.step("d", Tools().ask), str)
    assert_type(await ctx.step("j", pawl.retried(fetch, tries=5, when=(OSError, ValueError)), "u", tries=2), Mail)
    assert_type(await ctx.step("k", pawl.retried(count, when=lambda e: "again" in str(e)), ["x"]), int)
    message = await ctx.message()
    assert_type(await message.named_step("e", say, "x"), int)
    async for content in ctx.client.follow_message(message.id).contents():
        assert_type(content.text, str)
    await ctx.step("f", fetch)  # wrong: its argument is missing
    await ctx.step("g", fetch, 1)  # wrong: the argument is a number
    await ctx.step("h", count, ["x"], deep=True)  # wrong: it has no such argument
    await ctx.step("l", pawl.retried(count), 1)  # wrong: the argument is a list
    await message.named_step("i", say)  # wrong: its argument is missing


def plain(ctx: pawl.Context) -> None:
    """Steps of a plain handler."""
    assert_type(ctx.step("a", count, ["x"]), int)
    assert_type(ctx.step("b", lambda: "x"), str)
    message = ctx.message()
    assert_type(message.named_step("c", write, "x"), int)
    ctx.step("d", count)  # wrong: its argument is missing
    message.named_step("e", write, 1)  # wrong: the argument is a number
