"""Pictures of the tables that count: what the queues hold now and what the charts show, which models.py shows with the others.

Nobody but the SQL functions writes them.
"""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Value


class CountDelta(models.Model):
    """A change of the counts. The table has no key; `queue` stands for one so that Django's flush knows the table."""

    queue = models.TextField(primary_key=True)
    state = models.TextField()
    n = models.BigIntegerField()

    class Meta:
        db_table = "stampeded_count_deltas"


class QueueCount(models.Model):
    """How many jobs a queue has in a state; read only. `queue` alone is no key: use .values()."""

    queue = models.TextField(primary_key=True)
    state = models.TextField()
    n = models.BigIntegerField()

    class Meta:
        managed = False
        db_table = "stampeded_queue_counts"


class Tally(models.Model):
    """What happened since the last sample. The table has no key; `queue` stands for one, as in `CountDelta`."""

    queue = models.TextField(primary_key=True)
    what = models.TextField()
    n = models.BigIntegerField()

    class Meta:
        db_table = "stampeded_tallies"


class Sample(models.Model):
    """One queue at one moment, as the charts show it; a queue without a row in a slot was idle then."""

    pk = models.CompositePrimaryKey("queue", "slot")
    queue = models.TextField()
    slot = models.BigIntegerField()
    at = models.DateTimeField()
    seconds = models.FloatField(null=True)
    available = models.BigIntegerField()
    retryable = models.BigIntegerField()
    executing = models.BigIntegerField()
    oldest_waiting_secs = models.FloatField(null=True)
    completed = models.BigIntegerField()
    discarded = models.BigIntegerField()
    cancelled = models.BigIntegerField()
    failures = models.JSONField(db_default=Value({}, models.JSONField()))
    final_counts = ArrayField(models.BigIntegerField())

    class Meta:
        db_table = "stampeded_samples"
