"""The pytest plugin that gives a run its PostgreSQL: `addopts = -p django_stampeded.testing.pg`.

A conftest.py would be too late, as pytest-django reads the settings before it. So the server starts when this
module is imported, unless DATABASE_URL names one already; the workers of pytest-xdist inherit the variable.
"""

import os

from django_stampeded.testing.postgres import LocalPostgres

server: LocalPostgres | None = None

if not os.environ.get("DATABASE_URL"):
    server = LocalPostgres()
    os.environ["DATABASE_URL"] = server.start()
