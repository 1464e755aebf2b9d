"""Messages in steps, and what their readers have."""

from __future__ import annotations

import pytest

import pawl
import pawl.testing

from .test_worker import Server, drain, error_of


def message_of(client: pawl.Client, task: pawl.types.Task) -> pawl.types.Message:
    """The only message of a task."""
    [message] = client.list_messages(task_id=task["id"])
    return message


def parts_of(message: pawl.types.Message) -> list[tuple[str, str]]:
    """The texts of a message, and whether they were abandoned."""
    content = message["content"]
    assert isinstance(content, list)
    return [(p.get("text", ""), p.get("status", "")) for p in content]


def test_a_step_that_failed_is_written_anew(shared: Server, client: pawl.Client, kind: str) -> None:
    task = client.create_task(kind, max_attempts=3)
    ran: list[str] = []

    def tell(ctx: pawl.Context) -> list[str]:
        out = []
        with ctx.message() as message:
            for name in ("one", "two"):
                out.append(message.named_step(name, write, name, fails=False))
        return out

    def write(message: pawl.MessageWriter, name: str, *, fails: bool) -> str:
        ran.append(name)
        message.text(f"{name} ")
        message.flush()
        if ran == ["one", "two"]:
            raise pawl.RetryAfter(0, "broken")
        return name.upper()

    drain(shared, kind, tell)
    assert ran == ["one", "two", "two"]
    assert client.task_result(task["id"])["payload"] == ["ONE", "TWO"]
    message = message_of(client, task)
    assert parts_of(message) == [("one ", ""), ("two ", "abandoned"), ("two ", "")]
    assert (message["status"], message["step_number"]) == ("complete", 2)


async def tell_twice(message: pawl.AsyncMessageWriter, word: str) -> None:
    """Fails after it has written."""
    await message.text(word)
    raise ValueError(word)


def test_steps_that_would_be_written_twice_are_refused(shared: Server, client: pawl.Client, kind: str) -> None:
    said: list[str] = []

    async def tell(ctx: pawl.AsyncContext) -> None:
        message = await ctx.message()

        async def inside(message: pawl.AsyncMessageWriter) -> None:
            await message.step()

        async def within(message: pawl.AsyncMessageWriter) -> None:
            await message.named_step("inner", tell_twice, "x")

        for name, fn in (("a", inside), ("b", within)):
            with pytest.raises(pawl.PawlError) as e:
                await message.named_step(name, fn)
            said.append(str(e.value))
        with pytest.raises(ValueError):
            await message.named_step("c", tell_twice, "x")
        with pytest.raises(pawl.PawlError) as e:
            await message.named_step("c", tell_twice, "x")
        said.append(str(e.value))
        await message.step()
        with pytest.raises(ValueError):
            await message.named_step("c", tell_twice, "x")

    client.create_task(kind)
    assert drain(shared, kind, tell).completed == 1
    wants = ("step is called before the step has ended", "'b' of the message is running", "that no step has ended")
    for text, want in zip(said, wants, strict=True):
        assert want in text


def test_a_step_knows_its_message_and_its_arguments(shared: Server, client: pawl.Client, kind: str) -> None:
    def one(message: pawl.MessageWriter, text: str = "", *, model: str = "") -> int:
        return 1

    def first(ctx: pawl.Context) -> None:
        m = ctx.message()
        assert m.named_step("said", one, "a", model="m") == m.named_step("said", one, "a", model="m") == 1
        m.named_step("said", one, "b", model="n")

    def second(ctx: pawl.Context) -> None:
        with ctx.message() as m:
            m.named_step("said", one)
        ctx.message().named_step("said", one)

    def third(ctx: pawl.Context) -> None:
        ctx.step("said", lambda: 1)
        ctx.message().named_step("said", one)

    for fn, want in (
        (first, "for other arguments (text, model); give"),
        (second, "taken by a step of message msg_"),
        (third, "of type tool_executed"),
    ):
        task = client.create_task(kind, max_attempts=3)
        drain(shared, kind, fn)
        [item] = client.task_items(task["id"])
        assert item["state"] == "failed" and want in error_of(item)["message"], item


@pytest.mark.parametrize("caught", [True, False])
def test_what_a_handler_returns_after_a_stop_is_kept(
    shared: Server, client: pawl.Client, kind: str, caught: bool
) -> None:
    """It has caught the stop, or its last words came after it."""
    task = client.create_task(kind)

    def tell(ctx: pawl.Context) -> dict[str, int]:
        message = ctx.message()
        client.stop_message(message.id)
        message.text("more")
        if caught:
            with pytest.raises(pawl.MessageStopped):
                message.flush()
        return {"billing_id": 42}

    drain(shared, kind, tell)
    assert client.task_result(task["id"])["payload"] == {"billing_id": 42}
    assert message_of(client, task)["status"] == "stopped"


def test_the_last_words_of_an_attempt_that_fails_are_sent(shared: Server, client: pawl.Client, kind: str) -> None:
    plain, other = client.create_task(kind, max_attempts=1), client.create_task(kind + ".async", max_attempts=1)

    def tell(ctx: pawl.Context) -> None:
        ctx.message().text("The card was declined.")
        raise ValueError("declined")

    async def tell_async(ctx: pawl.AsyncContext) -> None:
        await (await ctx.message()).text("The card was declined.")
        raise ValueError("declined")

    drain(shared, kind, tell)
    drain(shared, kind + ".async", tell_async)
    for task in (plain, other):
        assert parts_of(message_of(client, task)) == [("The card was declined.", "")]
        [item] = client.task_items(task["id"])
        assert error_of(item)["message"] == "declined"
