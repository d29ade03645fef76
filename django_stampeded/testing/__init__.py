"""What a project needs to test its jobs; the server for tests is in `postgres`, the pytest plugin in `pg`."""
