"""What pulling says in the log: one function an event, worded here and nowhere else."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django_stampeded.pulling.lease import Lease

logger = logging.getLogger("django_stampeded.puller")


def left_without_outcome(lease: Lease) -> None:
    """A `with` block ended and had not said how the job did."""
    logger.warning(
        "The block of job %s (%s of queue %s) ended without an outcome: it goes back as an interruption. "
        "Call complete() where the job is done.",
        lease.id,
        lease.task,
        lease.queue,
    )
