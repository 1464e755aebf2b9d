"""The servers of tests, which are those of the package's own tests."""

from tests.conftest import client, kept, kind, own, shared

__all__ = ["client", "kept", "kind", "own", "shared"]
