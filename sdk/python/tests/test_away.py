import socket

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


def test_a_password_in_a_url_is_not_told() -> None:
    said = str(_rules.away("stats", OSError("refused"), "https://ana:secret@pawl.example:1/a@b"))
    assert said == "stats: the server https://pawl.example:1/a@b does not answer: refused (unavailable)"
    assert str(_rules.away("stats", OSError())) == "stats: the server does not answer (unavailable)"
