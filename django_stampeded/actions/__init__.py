"""The operator service: what a person or a tool may do to jobs, queues and schedules, from whatever surface.

Every surface calls these names, so that a button and a command do the same and leave the same audit row. Whether
somebody may do it is the surface's check; what it does to a job is decided in SQL (functions.py). Reading is
`insights`' part.
"""

from django_stampeded.actions.arguments_index import drop_arguments_index, index_arguments
from django_stampeded.actions.audit import LONGEST_REASON, Actor
from django_stampeded.actions.breakers import reset_breaker, trip_breaker
from django_stampeded.actions.bulk import BULK_SECONDS, GOES_FOR, PARAMETER_OF, BulkReport, group, on_each, on_portion
from django_stampeded.actions.bulk_operations import carry_on, expected, give_again, start, stop
from django_stampeded.actions.editing import check_arguments, edit_and_retry, enqueue
from django_stampeded.actions.jobs import (
    JOB_ACTIONS,
    Outcome,
    cancel,
    delete,
    discard,
    mark,
    move,
    redrive,
    retry,
    run_now,
    set_priority,
)
from django_stampeded.actions.policies import LIMITS, POLICY, change_limit, change_policy
from django_stampeded.actions.queues import pause, prune, resume
from django_stampeded.actions.schedules import delete_schedule, pause_schedule, run_schedule, save_schedule
from django_stampeded.actions.workers import stop_worker

EVERY_ACTION = (
    *JOB_ACTIONS, "edit", "enqueue", "bulk", "stop_bulk", "give_bulk_again", "pause", "resume", "change_policy",
    "change_limit", "make_schedule", "change_schedule", "pause_schedule", "resume_schedule", "run_schedule",
    "delete_schedule", "trip_breaker", "reset_breaker", "prune", "stop_worker", "index_arguments", "drop_arguments_index",
)  # fmt: skip
"""What stands in the audit's column of actions."""

__all__ = [
    "BULK_SECONDS",
    "EVERY_ACTION",
    "GOES_FOR",
    "JOB_ACTIONS",
    "LIMITS",
    "LONGEST_REASON",
    "PARAMETER_OF",
    "POLICY",
    "Actor",
    "BulkReport",
    "Outcome",
    "cancel",
    "carry_on",
    "change_limit",
    "change_policy",
    "check_arguments",
    "delete",
    "delete_schedule",
    "discard",
    "drop_arguments_index",
    "edit_and_retry",
    "enqueue",
    "expected",
    "give_again",
    "group",
    "index_arguments",
    "mark",
    "move",
    "on_each",
    "on_portion",
    "pause",
    "pause_schedule",
    "prune",
    "redrive",
    "reset_breaker",
    "resume",
    "retry",
    "run_now",
    "run_schedule",
    "save_schedule",
    "set_priority",
    "start",
    "stop",
    "stop_worker",
    "trip_breaker",
]
