"""For tests: a PostgreSQL server of their own in `postgres`, the pytest plugin that starts one in `pg`."""
