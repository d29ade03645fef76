"""The parent of worker processes: it starts them, watches them, and answers for those that die.

It runs no job and holds no connection while all is well, so nothing that a job does can take it down. Its children are
started by exec, never by fork: no thread, lock or connection of the parent is theirs.
"""

from django_stampeded.supervisor.parent import Orders, Supervisor

__all__ = ["Orders", "Supervisor"]
