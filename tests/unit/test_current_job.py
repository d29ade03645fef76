"""The job that code deep inside finds: its own, with the database that it came from."""

from __future__ import annotations

from contextvars import copy_context
from uuid import uuid4

import pytest

from django_stampeded import LeaseLost, current_job
from django_stampeded.functions import ClaimedJob
from django_stampeded.worker.context import context_of, enter
from django_stampeded.worker.lease import Lease


def test_a_current_job_speaks_to_the_database_that_its_worker_serves() -> None:
    job = ClaimedJob(*[None] * len(ClaimedJob._fields))._replace(id=uuid4())  # type: ignore[arg-type]
    context = copy_context()
    context.run(enter, Lease(job, uuid4(), 0.0), "elsewhere")
    found = context.run(current_job)
    assert found is not None
    assert (found.id, found._alias) == (job.id, "elsewhere")


def test_no_step_is_done_of_a_job_that_is_known_to_be_lost() -> None:
    job = ClaimedJob(*[None] * len(ClaimedJob._fields))._replace(id=uuid4())  # type: ignore[arg-type]
    lease = Lease(job, uuid4(), 0.0)
    lease.lost = True
    with pytest.raises(LeaseLost, match="nothing that this attempt does is recorded"):
        context_of(lease, "default").step("charge", pytest.fail, "it was charged")


def test_there_is_no_current_job_outside_of_one() -> None:
    assert current_job() is None
