"""`manage.py demo` as its users run it: a process of its own, on a database of its own, with a real worker."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from uuid import uuid4

import psycopg
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from example_project.imports.demo.processes import Child, signals_as_interrupt

ROOT = Path(__file__).parent.parent.parent
SECONDS = 120


@pytest.fixture
def database_url() -> Iterator[str]:
    """An empty database beside the tests' one."""
    server = os.environ["DATABASE_URL"]
    name = f"demo_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield re.sub(r"/[^/]*$", f"/{name}", server)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def demo(database_url: str, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "manage.py", "demo", *options],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": database_url, "PYTHONUNBUFFERED": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def workers(database_url: str) -> int:
    with psycopg.connect(database_url) as connection:
        row = connection.execute("SELECT count(*) FROM stampeded_workers").fetchone()
    assert row is not None
    return row[0]


def line_with(text: str, output: IO[str]) -> str:
    return next(line for line in output if text in line)


@pytest.mark.slow
def test_the_demo_imports_a_file_and_leaves_with_a_summary(database_url):
    printed, complained = (run := demo(database_url, "--once", "--rows", "60")).communicate(timeout=SECONDS)
    assert run.returncode == 0, complained
    assert "Importing 60 rows of airports.csv" in printed
    assert "By state: 65 completed, 1 discarded" in printed
    assert "\r" not in printed
    report = Path(re.search(r"Report: (.*)", printed)[1])
    assert "The loneliest places" in report.read_text()
    assert workers(database_url) == 0


@pytest.mark.slow
def test_any_csv_file_can_be_imported(database_url, tmp_path):
    path = tmp_path / "products.csv"
    path.write_text("product;price\nlamp;12\ntable;80\n")
    printed, complained = (run := demo(database_url, "--once", "--csv", str(path))).communicate(timeout=SECONDS)
    assert run.returncode == 0, complained
    assert "By state: 5 completed, 1 discarded" in printed


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_admin_can_be_entered_until_a_signal_ends_everything(database_url, number):
    run = demo(database_url, "--rows", "3")
    try:
        address, user, password = re.search(
            r"(http://\S+/)admin/   user (\S+), password (\S+)", line_with("Admin:", run.stdout)
        ).groups()
        line_with("Ctrl-C", run.stdout)
        with urllib.request.urlopen(address, timeout=SECONDS) as answer:
            assert answer.url.startswith(f"{address}admin/login/")
        assert workers(database_url) == 1
        run.send_signal(number)
        run.communicate(timeout=SECONDS)
    finally:
        run.kill()
    assert run.returncode == 0
    assert (user, bool(password)) == ("demo", True)
    assert workers(database_url) == 0
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=SECONDS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": "0"}, "--rows takes a whole number from 1 to 10000000, not '0'."),
        ({"rows": "many"}, "--rows takes a whole number from 1 to 10000000, not 'many'."),
        ({"port": "99999"}, "--port takes a whole number from 1 to 65535, not '99999'."),
        ({"csv": "/nowhere/rows.csv"}, "There is no file /nowhere/rows.csv: check the path."),
    ],
)
def test_a_wrong_option_is_refused_before_anything_starts(options, message):
    with pytest.raises(CommandError) as raised:
        call_command("demo", **options)
    assert str(raised.value) == message


def test_a_child_that_ended_is_known_and_its_last_words_are_kept(tmp_path):
    with Child("worker", ["no_such_command"], tmp_path / "child.log") as child:
        child._process.wait(SECONDS)
        assert not child.running
    assert "no_such_command" in child.last_words()


def test_a_child_that_runs_is_stopped_at_the_end(tmp_path):
    with Child("shell", ["shell", "-c", "import time; time.sleep(600)"], tmp_path / "child.log") as child:
        assert child.running
    assert not child.running


def test_a_sigint_that_a_shell_had_ignored_ends_the_demo_all_the_same():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt), signals_as_interrupt():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
