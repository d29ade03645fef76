"""A PostgreSQL server of the system that is too old, started for as long as a test needs it."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

SYSTEM = Path("/usr/lib/postgresql")


class OldServer:
    """The newest server below 18 that the system has; a context manager."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="too-old-"))
        self.binaries = self._binaries()
        self.version = self.binaries.parent.name
        root = os.name == "posix" and os.geteuid() == 0
        self._nobody: dict[str, Any] = {"user": "nobody", "extra_groups": []} if root else {}
        if root:
            os.chown(self.folder, pwd.getpwnam("nobody").pw_uid, -1)

    @staticmethod
    def _binaries() -> Path:
        found = [path for path in SYSTEM.glob("*/bin") if path.parent.name.isdigit() and (path / "initdb").exists()]
        return max((path for path in found if int(path.parent.name) < 18), key=lambda path: int(path.parent.name))

    @classmethod
    def installed(cls) -> bool:
        try:
            return bool(cls._binaries())
        except ValueError:
            return False

    def __enter__(self) -> OldServer:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        data = str(self.folder / "data")
        self._run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        settings = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
        self._run("pg_ctl", "start", "-w", "-D", data, "-l", str(self.folder / "log"), "-o", settings)
        self.params = {"dbname": "postgres", "user": "postgres", "host": "127.0.0.1", "port": port}
        return self

    def __exit__(self, *_: object) -> None:
        self._run("pg_ctl", "stop", "-w", "-m", "immediate", "-D", str(self.folder / "data"))
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *args: str) -> None:
        subprocess.run([str(self.binaries / program), *args], check=True, stdout=subprocess.DEVNULL, cwd="/", **self._nobody)
