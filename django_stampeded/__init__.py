"""A job queue for Django on PostgreSQL."""
