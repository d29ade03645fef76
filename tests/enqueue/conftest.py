"""Fixtures of the enqueue tests: threads with connections of their own, and a second database alias."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connections


@contextmanager
def alias_for(name: str, **changed: Any) -> Iterator[str]:
    """An alias for a second connection to the database under test."""
    connections.settings[name] = connections.settings["default"] | {
        "NAME": connections["default"].settings_dict["NAME"],
        **changed,
    }
    connections[name].connect()  # by itself, since Django keeps tests from aliases that were not there at their start
    try:
        yield name
    finally:
        connections[name].close()
        del connections[name]
        del connections.settings[name]


@pytest.fixture
def other(transactional_db: None) -> Iterator[str]:
    """An alias for a second connection to the same database."""
    with alias_for("other") as name:
        yield name


@pytest.fixture
def server_binding(transactional_db: None) -> Iterator[str]:
    """An alias whose parameters the server binds."""
    with alias_for("server_binding", OPTIONS={"server_side_binding": True}) as name:
        yield name


class Thread(threading.Thread):
    """A thread that keeps what its function returned or raised, and closes its connections."""

    def __init__(self, func: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self.func = func
        self.result: Any = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.result = self.func()
        except BaseException as exc:
            self.error = exc
        finally:
            connections.close_all()

    def value(self) -> Any:
        """Waits for the end; what the function returned, or its error raised here."""
        self.join(60)
        assert not self.is_alive(), "the thread did not end within a minute"
        if self.error is not None:
            raise self.error
        return self.result


@pytest.fixture
def in_thread(transactional_db: None) -> Callable[[Callable[[], Any]], Thread]:
    """Starts a function in a thread with a database connection of its own."""
    return Thread
