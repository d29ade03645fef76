"""Fixtures that every test package shares."""
