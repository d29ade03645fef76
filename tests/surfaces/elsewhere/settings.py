"""A project whose default database is SQLite and whose jobs live in PostgreSQL under another alias, without any router."""

from example_project.settings import *  # noqa: F403
from example_project.settings import DATABASES as _PLAIN

DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
    "queue": _PLAIN["default"],
}
STAMPEDED = {"DATABASE": "queue"}
DATABASE_ROUTERS: list[str] = []
