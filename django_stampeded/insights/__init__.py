"""The read service: what every surface (admin, command line, HTTP, MCP) shows of queues, jobs and workers.

Surfaces read through these names only, so that they agree; what changes something is `django_stampeded.actions`.
Nothing here takes longer as the job table grows: counts come from a view, rows from indexes, searches from a window.
"""

from django_stampeded.insights.arguments_index import arguments_are_indexed
from django_stampeded.insights.batches import BatchStatus, BatchView, batch, batch_statuses, batches
from django_stampeded.insights.breakers import BreakerStatus, breaker_of, breakers
from django_stampeded.insights.bulk_operations import abandoned
from django_stampeded.insights.clusters import Clusters, ErrorCluster, error_clusters
from django_stampeded.insights.durations import in_words
from django_stampeded.insights.errors import ErrorEntry, summary_of
from django_stampeded.insights.health import Figures, Finding, assess, health
from django_stampeded.insights.history import acts_on
from django_stampeded.insights.jobs import JobFacts, facts, find
from django_stampeded.insights.occurrences import LastRun, Upcoming, last_runs, upcoming
from django_stampeded.insights.overview import LateSchedule, Overview, TenantLoad, overview
from django_stampeded.insights.paging import Page, page
from django_stampeded.insights.progress import ProgressFacts
from django_stampeded.insights.queues import QueueStatus, counts_by_queue, queues, total
from django_stampeded.insights.reasons import QueueSituation, Reason, why_not_running
from django_stampeded.insights.redaction import Limits, Redactor
from django_stampeded.insights.relations import Relation, Relations, relations
from django_stampeded.insights.samples import Charts, FailureRate, charts
from django_stampeded.insights.selection import Selection, moment_of, parse_id, recent_tasks, recent_tenants
from django_stampeded.insights.steps import Checkpoint, StepFacts, checkpoint_of
from django_stampeded.insights.timeline import Event, timeline
from django_stampeded.insights.walking import Group, Number, Portion, number, portion
from django_stampeded.insights.workers import (
    RunningJob,
    WorkerStatus,
    live_workers,
    notifications_of,
    running_by_worker,
    serves,
    with_liveness,
    workers,
)

__all__ = [
    "BatchStatus",
    "BatchView",
    "BreakerStatus",
    "Charts",
    "Checkpoint",
    "Clusters",
    "ErrorCluster",
    "ErrorEntry",
    "Event",
    "FailureRate",
    "Figures",
    "Finding",
    "Group",
    "JobFacts",
    "LastRun",
    "LateSchedule",
    "Limits",
    "Number",
    "Overview",
    "Page",
    "Portion",
    "ProgressFacts",
    "QueueSituation",
    "QueueStatus",
    "Reason",
    "Redactor",
    "Relation",
    "Relations",
    "RunningJob",
    "Selection",
    "StepFacts",
    "TenantLoad",
    "Upcoming",
    "WorkerStatus",
    "abandoned",
    "acts_on",
    "arguments_are_indexed",
    "assess",
    "batch",
    "batch_statuses",
    "batches",
    "breaker_of",
    "breakers",
    "charts",
    "checkpoint_of",
    "counts_by_queue",
    "error_clusters",
    "facts",
    "find",
    "health",
    "in_words",
    "last_runs",
    "live_workers",
    "moment_of",
    "notifications_of",
    "number",
    "overview",
    "page",
    "parse_id",
    "portion",
    "queues",
    "recent_tasks",
    "recent_tenants",
    "relations",
    "running_by_worker",
    "serves",
    "summary_of",
    "timeline",
    "total",
    "upcoming",
    "why_not_running",
    "with_liveness",
    "workers",
]
