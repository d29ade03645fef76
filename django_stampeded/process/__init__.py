"""What every long-running role of a process stands on: connections that come back, threads that outlive errors.

Knows nothing of jobs; worker/ and maintenance/ are built on it.
"""
