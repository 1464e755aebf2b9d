"""A worker for compose: greets whom a task names."""

import os

import pawl

worker = pawl.Worker(os.environ["PAWL_SERVER"], os.environ.get("PAWL_KEY", ""), name="greeter")


@worker.handler("greet")
def greet(name: str) -> str:
    return f"Hello, {name}!"


if __name__ == "__main__":
    worker.run()  # until SIGTERM
