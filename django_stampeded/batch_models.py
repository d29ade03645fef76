"""Pictures of the tables around batches, dependencies, results and progress, which models.py shows with the others.

Nobody but the SQL functions writes them.
"""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now


class BatchDelta(models.Model):
    """A change of a batch's counts. The table has no key; `batch_id` stands for one so that Django's flush knows the table."""

    batch_id = models.UUIDField(primary_key=True)
    state = models.TextField()
    n = models.BigIntegerField()

    class Meta:
        db_table = "stampeded_batch_deltas"


class Dependency(models.Model):
    """One job that waits for another one."""

    pk = models.CompositePrimaryKey("parent_id", "child_id")
    parent_queue = models.TextField()
    parent_id = models.UUIDField()
    child_queue = models.TextField()
    child_id = models.UUIDField()
    due_at = models.DateTimeField(db_default=Now())
    on_discard = models.TextField(db_default="fail")
    missed = models.BooleanField(db_default=False)

    class Meta:
        db_table = "stampeded_dependencies"


class Result(models.Model):
    """What a job returned, for tasks that keep it."""

    job_id = models.UUIDField(primary_key=True)
    queue = models.TextField()
    value = models.JSONField()
    stored_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()

    class Meta:
        db_table = "stampeded_results"


class Progress(models.Model):
    """How far a job said that it is."""

    job_id = models.UUIDField(primary_key=True)
    attempt = models.SmallIntegerField()
    done = models.BigIntegerField()
    total = models.BigIntegerField(null=True)
    message = models.TextField(db_default="")
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "stampeded_progress"
