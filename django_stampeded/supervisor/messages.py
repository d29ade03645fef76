"""Everything the supervisor says in its log: one function an event, worded here and nowhere else."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from django_stampeded.functions import Settled

logger = logging.getLogger("django_stampeded.supervisor")


def started(number: int, pid: int) -> None:
    """A child begins."""
    logger.info("Worker process %d started (pid %d).", number, pid)


def ended(number: int, pid: int) -> None:
    """A child ended because it wanted to."""
    logger.info("Worker process %d (pid %d) ended.", number, pid)


def died(number: int, pid: int, how: str, delay: float) -> None:
    """A child ended, and nobody had asked it to."""
    logger.error(
        "Worker process %d (pid %d) %s. The jobs that it had started fail as worker_exited, the others are released; "
        "the next process starts %s.",
        number,
        pid,
        how,
        f"in {delay:g} s" if delay else "now",
    )


def died_stopping(number: int, pid: int, how: str) -> None:
    """A child did not live to see its orderly end."""
    logger.warning("Worker process %d (pid %d) %s while it was to stop.", number, pid, how)


def keep_dying(number: int, deaths: int, how: str, delay: float) -> None:
    """It is no accident any more."""
    logger.error(
        "Children keep dying: worker process %d ended %d times in a row soon after its start; the last one %s. Look into its "
        "log and at the jobs that failed as worker_exited. The next one starts in %g s.",
        number,
        deaths,
        how,
        delay,
    )


def recovered(number: int) -> None:
    """Children live again."""
    logger.info("Worker process %d lives again.", number)


def not_started(number: int, problem: OSError, delay: float) -> None:
    """The system gives us no process."""
    logger.error("Worker process %d could not be started (%s). Trying again in %g s.", number, problem, delay)


def settled(jobs: Sequence[Settled]) -> None:
    """The jobs of a dead child are dealt with."""
    for job in jobs:
        if job.started:
            logger.error("Job %s of queue %s had started: failed as worker_exited, now %s.", job.id, job.queue, job.now_state)
    if released := sum(not job.started for job in jobs):
        logger.info("Released %d jobs that it had not started.", released)


def recorded_late(count: int) -> None:
    """Outcomes that a dead child had left on its board."""
    logger.info("Recorded %d outcomes that it had not had the time to record.", count)


def gave_up(problem: BaseException) -> None:
    """The database refuses to settle for a reason that trying again won't change."""
    logger.error(
        "The jobs of a dead worker process can't be settled (%s); maintenance takes them back later.", problem, exc_info=problem
    )


def silent(number: int, pid: int) -> None:
    """A child lives and does not beat."""
    logger.warning(
        "Worker process %d (pid %d) does not get to its heartbeat: a job in it keeps other threads from running, or its "
        "connection is broken. The supervisor beats for it as long as it lives; its jobs expire all the same.",
        number,
        pid,
    )


def stopping(children: int) -> None:
    """The orderly end begins."""
    logger.info("Stopping the worker processes, %d of them.", children)


def killing(children: int) -> None:
    """They had their time."""
    logger.warning("Some worker processes did not end in time and are killed, %d of them.", children)


def reloading(path: str) -> None:
    """Code has changed."""
    logger.info("%s changed: starting the worker processes anew.", path)
