"""The servers of tests, which are those of the package's own tests."""

from tests.conftest import own, shared

__all__ = ["own", "shared"]
