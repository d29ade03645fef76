"""Running a job whose completion commits with its work, in one transaction on the job's database: `@task(transactional=True)`.

Owns that transaction. Who may complete the attempt is decided in SQL by the statement that every completion uses; a job
that raises, or whose lease is lost, leaves nothing behind, and its failure is recorded by acker.py as any other. So is one
whose COMMIT got no answer: where the server did commit, SQL refuses that failure.
"""

from __future__ import annotations

from collections.abc import Callable

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.pq import TransactionStatus

from django_stampeded.exceptions import LeaseLost
from django_stampeded.worker import messages
from django_stampeded.worker.acker import record
from django_stampeded.worker.lease import Lease
from django_stampeded.worker.outcomes import RECORDED, Outcome


def run(lease: Lease, alias: str, body: Callable[[], Outcome], body_is_over: Callable[[], None]) -> Outcome:
    """Run `body` and record what it returns in one transaction on the database of `alias`.

    `body_is_over` is called in between: from then on nothing interrupts this thread. Returns RECORDED. Raises what the body
    raises, TransactionManagementError for a transaction that the body broke, LeaseLost where the attempt is no longer this
    worker's, and the driver's errors, all of them with the transaction rolled back, but for a COMMIT without an answer.
    """
    wrapper = connections[alias]
    if not wrapper.in_atomic_block and not wrapper.get_autocommit():
        wrapper.set_autocommit(True)  # without it, atomic() would leave the COMMIT to somebody else
    committed = False

    def note() -> None:
        nonlocal committed
        committed = True

    try:
        with transaction.atomic(using=alias):
            transaction.on_commit(note, using=alias)  # before any hook of the job's, which may raise
            outcome = body()
            body_is_over()
            _refuse_broken(wrapper)
            _record(lease, outcome, wrapper)
    except BaseException as exc:
        if not committed:
            raise
        messages.hook_failed(lease, exc)
    return RECORDED


def _record(lease: Lease, outcome: Outcome, wrapper: BaseDatabaseWrapper) -> None:
    recorded = lease.end()
    if recorded:
        with wrapper.cursor() as cur:
            recorded = not record(cur, [(lease, outcome)])
    if not recorded:
        messages.rolled_back(lease)
        raise LeaseLost(
            f"Job {lease.job.id} is no longer this attempt's ({lease.job.attempt}): it was taken back or ended elsewhere, so "
            "its transaction is rolled back."
        )


def _refuse_broken(wrapper: BaseDatabaseWrapper) -> None:
    """Say what the body did to its transaction, where that can't commit any more."""
    connection = wrapper.connection
    if connections[wrapper.alias] is not wrapper or connection is None or connection.closed or wrapper.closed_in_transaction:
        raise transaction.TransactionManagementError(
            "The transaction of this transactional job is gone, as its database connection was closed in it: nothing is kept. "
            "Leave the connection open; the worker looks after it."
        )
    if wrapper.needs_rollback or connection.info.transaction_status == TransactionStatus.INERROR:
        raise transaction.TransactionManagementError(
            "The transaction of this transactional job can only be rolled back, as a database error was caught in it or a "
            "rollback asked for: put `with transaction.atomic():` around the statements that may fail, inside of the `try`."
        )
