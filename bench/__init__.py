"""Measures the queue's speed against bare statements on the same server: `make bench`, never part of a test run."""
