import socket
from typing import Any

import pytest

import pawl
from pawl import _rules


def test_a_server_that_does_not_answer_is_named() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    said = f"^create_task: the server http://127.0.0.1:{port} does not answer: "
    with pawl.Client(f"http://127.0.0.1:{port}", tries=1) as client, pytest.raises(pawl.UnavailableError, match=said):
        client.create_task("x")


@pytest.mark.parametrize("id", [None, {"name": "x"}, 7])
def test_what_is_no_id_is_named(id: Any) -> None:
    client = pawl.Client("http://127.0.0.1:1", tries=1)
    for op in (client.wait, client.result):
        with pytest.raises(TypeError, match=r"takes a task or its id, not "):
            op(id)
    with pytest.raises(TypeError, match=r"^get_task takes an id, not "):
        client.get_task(id)


def test_a_password_in_a_url_is_not_told() -> None:
    said = str(_rules.away("stats", OSError("refused"), "https://ana:secret@pawl.example:1/a@b"))
    assert said == "stats: the server https://pawl.example:1/a@b does not answer: refused (unavailable)"
    assert str(_rules.away("stats", OSError())) == "stats: the server does not answer (unavailable)"
