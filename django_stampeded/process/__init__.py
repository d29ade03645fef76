"""What every long-running role of a process stands on: connections that come back, threads that outlive errors, and the
ties between a worker process and its parent.

Knows nothing of jobs but their ids; worker/, maintenance/ and supervisor/ are built on it.
"""
