"""Django signals for what happens to jobs and breakers. Owns the signals; enqueueing.py, the worker and actions send them.

They are sent with send_robust: a receiver that raises is logged by Django and changes nothing for the job. Receivers run where
the change happens, so a slow one slows the enqueuer or the worker down. What happens to a job in SQL alone (a worker's death,
expiry, an operator's action, a worker in another language) sends none: no process of Django brought it about.
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
"""An attempt failed: by an exception, a timeout, Cancel or Discard, or since its arguments don't fit. Not for a Snooze.

One of job_retried, job_discarded and job_cancelled follows at once. `sender`: the class JobContext. `job`: its JobContext.
`exception`: what it raised.
"""

job_retried = Signal()
"""The failed attempt is followed by another. `sender`, `job`, `exception`: as for job_failed.

`delay`: the timedelta until then, None where the back-off on the job's row is drawn in SQL.
"""

job_discarded = Signal()
"""The failed attempt was the last: none is left, or none could help. `sender`, `job`, `exception`: as for job_failed."""

job_cancelled = Signal()
"""The job cancelled itself by Cancel. `sender`, `job`, `exception`: as for job_failed."""

job_snoozed = Signal()
"""The job put itself off by Snooze, or was put off as this worker doesn't know its task; the attempt is given back.

`sender`: the class JobContext. `job`: its JobContext. `delay`: the timedelta until it is due.
"""

job_interrupted = Signal()
"""The body ended by an exception after others had decided the attempt's fate; its outcome is refused.

The job was cancelled elsewhere, its lease was lost, it was given up after a timeout, or handed back as the worker ends.
`sender`: the class JobContext. `job`: its JobContext. `exception`: what it raised.
"""

breaker_opened = Signal()
"""A circuit breaker has opened, by failures or by hand. Sent once, by the process that saw it, not for failed probes.

`sender`: the class Key. `kind`: "destination" or "task". `key`: which one. `using`: the alias of the database.
"""

breaker_closed = Signal()
"""A circuit breaker is closed again, by probes that succeeded or by hand. Sent as breaker_opened is, with the same arguments.
"""
