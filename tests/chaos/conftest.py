"""The same durable server as for the acceptance tests."""

from tests.acceptance.conftest import installed, server

__all__ = ["installed", "server"]
