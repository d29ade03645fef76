"""Django signals for what happens to jobs. Owns the signals; enqueue.py and the worker send them.

They are sent with send_robust: a receiver that raises is logged by Django and changes nothing for the job. Receivers run where
the change happens, so a slow one slows the enqueuer or the worker down.
"""

from __future__ import annotations

from django.dispatch import Signal

job_enqueued = Signal()
"""A job was enqueued, in a transaction that may yet roll back; not sent for a duplicate.

`sender`: the class EnqueuedJob. `job`: the EnqueuedJob. `using`: the alias of the database it was written to.
"""

job_replaced = Signal()
"""A job that waited took the arguments of a duplicate (on_conflict="replace"), in a transaction that may yet roll back.

`sender`, `job`, `using`: as for job_enqueued.
"""

job_started = Signal()
"""A job's body is about to run, in this thread.

`sender`: the class JobContext. `job`: its JobContext.
"""

job_completed = Signal()
"""A job's body returned; that is recorded next, or is already where the task is transactional. Sent in the job's thread.

`sender`: the class JobContext. `job`: its JobContext.
"""

job_failed = Signal()
"""A job's attempt ended by an exception or a timeout, or by Cancel or Discard; that is recorded next. Not for a Snooze.

Sent in the job's thread. `sender`: the class JobContext. `job`: its JobContext. `exception`: what it raised.
"""
