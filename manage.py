#!/usr/bin/env python3
"""Django's command line for the example project.

Where DATABASE_URL is unset, a PostgreSQL of our own is started first and its data kept under .demo/, so that
every command works with nothing installed but this repository's requirements.
"""

import os
import sys
from pathlib import Path

WITHOUT_DATABASE = {"help", "version", "--help", "--version", "-h", "startapp", "makemessages", "compilemessages"}


def provide_database(arguments: list[str]) -> None:
    """Set DATABASE_URL before Django reads its settings; the auto-reloader's child inherits it."""
    if os.environ.get("DATABASE_URL"):
        return
    if len(arguments) < 2 or arguments[1] in WITHOUT_DATABASE or {"-h", "--help"} & set(arguments):
        os.environ["DATABASE_URL"] = "postgres://nobody@127.0.0.1:9/not_started"
        return
    from django_stampeded.testing.postgres import LocalPostgres, LocalPostgresError

    try:
        os.environ["DATABASE_URL"] = LocalPostgres(Path(__file__).parent / ".demo" / "postgres").start()
    except LocalPostgresError as error:
        sys.exit(f"error: {error}")


def main() -> None:
    """Run the command given on the command line."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.settings")
    provide_database(sys.argv)
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
