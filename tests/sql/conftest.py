"""Makes the fixtures of the SQL tests known to this folder."""

from tests.sql.fixtures import connect, idle, params, second_install, server, sql

__all__ = ["connect", "idle", "params", "second_install", "server", "sql"]
