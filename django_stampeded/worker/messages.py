"""Everything the worker says in its log: one function an event, worded here and nowhere else.

A line names the job, its task and its queue, never its arguments, and says what happens next. What could repeat many
times a second is said in full once and then counted.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from uuid import UUID

from django_stampeded.functions import Failed as Recorded
from django_stampeded.states import FailureKind
from django_stampeded.worker.failure_text import headline
from django_stampeded.worker.lease import Lease
from django_stampeded.worker.outcomes import Failed, Snoozed
from django_stampeded.worker.selection import Selection

logger = logging.getLogger("django_stampeded.worker")

QUIET_S = 60.0
_MOST_NAMES = 1000


class Quiet:
    """Lets one message of each kind through a minute and counts the others. Thread-safe, bounded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._said: dict[str, tuple[float, int]] = {}

    def count(self, kind: str) -> int | None:
        """How many were held back since the last one of this kind if it is time to speak, else None."""
        now = time.monotonic()
        with self._lock:
            said, held_back = self._said.get(kind, (None, 0))
            if said is not None and now - said < QUIET_S:
                self._said[kind] = (said, held_back + 1)
                return None
            if len(self._said) >= _MOST_NAMES:
                self._said.clear()
            self._said[kind] = (now, 0)
            return held_back


_quiet = Quiet()


def _name(lease: Lease) -> str:
    job = lease.job
    return f"Job {job.id} ({job.task} of queue {job.queue})"


def registered(worker_id: UUID, selection: Selection, threads: int) -> None:
    """The worker is known to the database and begins to claim."""
    logger.info("Worker %s takes jobs of %s, %d at a time.", worker_id, selection, threads)


def registered_anew(before: UUID, worker_id: UUID) -> None:
    """The worker's row was gone: others took it for dead."""
    logger.warning(
        "Worker %s was taken for dead while it was cut off; it goes on as %s and asks which jobs are still its own.",
        before,
        worker_id,
    )


def late_beat(seconds: float, dead_after: float) -> None:
    """The heartbeat comes so late that another beat like that could cost the leases."""
    if (more := _quiet.count("late_beat")) is not None:
        logger.warning(
            "The heartbeat is %.1f s late (%d more in the last minute); after %.0f s the jobs of this worker are given "
            "to others. Use fewer threads, or raise DEAD_AFTER.",
            seconds,
            more,
            dead_after,
        )


def listening(channel: str) -> None:
    """Notifications arrive."""
    logger.info("Listening on %s: due jobs start at once.", channel)


def polling_only(poll_interval: float) -> None:
    """LISTEN was accepted and nothing arrives: a pooler is in between."""
    logger.warning(
        "Polling only: notifications do not arrive, as behind a pooler in transaction mode. Due jobs start within %g s. "
        "Give the worker a direct connection, or set LISTEN to False to silence this.",
        poll_interval,
    )


def lease_lost(lease: Lease, late: bool) -> None:
    """Somebody else decided the job's fate; our result is refused (late), or will be."""
    if lease.cancelled:
        logger.info("%s was cancelled elsewhere in attempt %d; its result is dropped.", _name(lease), lease.job.attempt)
    else:
        logger.warning(
            "%s: lease lost in attempt %d. It was taken back meanwhile; %s.",
            _name(lease),
            lease.job.attempt,
            "its late result is refused" if late else "its result will be refused",
        )


def result_unsure(lease: Lease) -> None:
    """The connection broke while an outcome was recorded, and the second try found nothing to record."""
    logger.info(
        "%s: its outcome was recorded before the connection broke, or its lease was lost; nothing is recorded twice.",
        _name(lease),
    )


def failed(lease: Lease, outcome: Failed, recorded: Recorded) -> None:
    """A failure is on record; the state says what becomes of the job."""
    job = lease.job
    if outcome.kind is FailureKind.CANCELLED:
        logger.info("%s: attempt %d cancelled the job. The reason is on record.", _name(lease), job.attempt)
        return
    ending = "discarded" + (", a copy is in its dead-letter queue" if recorded.dead_lettered else "")
    level = logging.WARNING if recorded.now_state == "retryable" else logging.ERROR
    if outcome.kind is FailureKind.BREAKER_OPEN and recorded.now_state == "retryable":
        level = logging.DEBUG  # thousands at a time, and the breaker has a line of its own
    logger.log(
        level,
        "%s: attempt %d of %d %s; now %s. Its error is on record.",
        _name(lease),
        job.attempt,
        job.max_attempts,
        outcome.kind.value.replace("_", " "),
        ending if recorded.now_state == "discarded" else recorded.now_state,
    )


def useless_backoff(lease: Lease, problem: BaseException) -> None:
    """The task's own function for the delay raised, or returned what is no delay."""
    if (more := _quiet.count(f"useless_backoff {lease.job.task}")) is not None:
        logger.error(
            "%s: the backoff function of its task is of no use: %s (%d more in the last minute). The job runs again after "
            "the back-off of backoff_base and backoff_max; mend the function.",
            _name(lease),
            headline(problem),
            more,
        )


def given_up(lease: Lease, stack: str) -> None:
    """It was interrupted and did not end."""
    logger.error(
        "%s does not end though it was interrupted: it is given up, its result will be dropped, and its thread is lost until "
        "it comes back. Give a task that calls code which can't be interrupted isolation='process'. It is in\n%s",
        _name(lease),
        stack,
    )


def late(lease: Lease, count: int) -> None:
    """The result of a job that was given up or handed back."""
    logger.warning("%s ended after its outcome was decided; its result is dropped (%d so far).", _name(lease), count)


def rolled_back(lease: Lease) -> None:
    """A transactional job was no longer ours when it was to be completed."""
    logger.warning(
        "%s: lease lost in attempt %d; its transaction is rolled back, with everything that it wrote.",
        _name(lease),
        lease.job.attempt,
    )


def hook_failed(lease: Lease, problem: BaseException) -> None:
    """What a transactional job wanted done after its commit raised."""
    logger.error(
        "%s is completed, but a function that it gave to transaction.on_commit() raised %s, and those after it were not "
        "called. Look whether what they do must be made up for; the job does not run again.",
        _name(lease),
        type(problem).__name__,
        exc_info=problem,
    )


def unsafe_timeout(timeout: float, expire_seconds: int, task: str) -> None:
    """The lease would end before the timeout does."""
    logger.warning(
        "Task %s has a timeout of %g s, not shorter than its expire_seconds of %d: make expire_seconds larger.",
        task,
        timeout,
        expire_seconds,
    )


def unknown_task(lease: Lease, outcome: Snoozed) -> None:
    """No function of that name here."""
    if (more := _quiet.count(f"unknown_task {lease.job.task}")) is not None:
        logger.warning(
            "Unknown task %s (job %s of queue %s, and %d more jobs in the last minute): no app's tasks.py declares it here. "
            "It runs again in %.0f s, uncharged; deploy the task or discard its jobs.",
            lease.job.task,
            lease.job.id,
            lease.job.queue,
            more,
            outcome.delay_ms / 1000,
        )


def error_of_ours(lease: Lease, problem: BaseException) -> None:
    """Something went wrong around a job's body, not in it."""
    logger.error("%s: its thread met an error outside of the job, which counts as failed.", _name(lease), exc_info=problem)


def left_open(lease: Lease, alias: str) -> None:
    """A job ended inside a transaction of its own making."""
    logger.warning(
        "%s left a transaction open on the database %r: what it did there is rolled back. Use transaction.atomic().",
        _name(lease),
        alias,
    )


def unrecordable(lease: Lease, problem: BaseException) -> None:
    """The database refuses an outcome for a reason that trying again won't change."""
    logger.error(
        "%s: its outcome can't be recorded (%s). It stays with this worker until its lease runs out and is retried then.",
        _name(lease),
        type(problem).__name__,
        exc_info=problem,
    )


def batches_left(problem: BaseException) -> None:
    """Looking whether batches have finished went wrong; nothing is lost."""
    if (more := _quiet.count("batches_left")) is not None:
        logger.warning(
            "Whether batches have finished could not be told (%s: %s; %d more in the last minute): maintenance looks again.",
            type(problem).__name__,
            problem,
            more,
        )


def progress_dropped(problem: BaseException) -> None:
    """What jobs said of their progress could not be written; it is for looking at only."""
    if (more := _quiet.count("progress_dropped")) is not None:
        logger.warning(
            "The progress of jobs could not be written (%s: %s; %d more in the last minute): it shows when they report again.",
            type(problem).__name__,
            problem,
            more,
        )


def orphans_released(count: int) -> None:
    """A claim was committed, its answer never arrived."""
    logger.info("Released %d jobs that were claimed while the connection broke.", count)


def stuck_released(count: int, seconds: float) -> None:
    """Prefetched jobs waited behind long ones."""
    logger.debug("Released %d jobs that waited %.1f s for a thread.", count, seconds)


def stopping(running: int, released: int, grace: float) -> None:
    """The orderly end begins."""
    logger.info(
        "Stopping: no more claims, %d jobs not started are released; %s",
        released,
        _patience(running, grace),
    )


def _patience(running: int, grace: float) -> str:
    if not running:
        return "nothing is running."
    if grace == float("inf"):
        return f"waiting for {running} running jobs."
    return f"waiting up to {grace:g} s for {running} running jobs. A second signal stops at once."


def handed_back(leases: Sequence[Lease]) -> None:
    """The grace period is over for these."""
    for lease in leases:
        logger.warning("%s did not end in time: it is released, and runs again elsewhere.", _name(lease))


def unrecorded(count: int) -> None:
    """The database did not answer before we had to leave."""
    logger.error(
        "%d outcomes could not be recorded, as the database does not answer: those jobs are taken back and run again.", count
    )


def stopped(node: str) -> None:
    """The end."""
    logger.info("Worker on %s stopped.", node)


def breaker_opened(kind: str, key: str, retry_in: float | None, again: bool) -> None:
    """A circuit breaker keeps jobs back from now on, or for longer."""
    logger.warning(
        "The circuit breaker of %s %s %s: none of its jobs starts before %s.",
        kind,
        key,
        "stays open, as a probe failed" if again else "is open, as too many jobs failed",
        "it is reset" if retry_in is None else f"a probe does, in {retry_in:.0f} s",
    )


def breaker_closed(kind: str, key: str) -> None:
    """Its jobs run again."""
    logger.warning("The circuit breaker of %s %s is closed again: its jobs run as before.", kind, key)


def breakers_unreported(reason: Exception) -> None:
    """The outcomes are on record, but no breaker has heard of them."""
    logger.warning("Outcomes could not be reported to the circuit breakers, which decide without them: %s", reason)
