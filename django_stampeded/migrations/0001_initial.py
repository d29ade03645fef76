"""The first schema: tables, functions and triggers from the numbered files of sql/, with their pictures for Django."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models

import django_stampeded.models
from django_stampeded.schema import InstallFunctions, InstallTables, InstallTriggers

TABLES = [
    "jobs_v01",
    "workers_v01",
    "batches_v01",
    "batch_deltas_v01",
    "dependencies_v01",
    "results_v01",
    "progress_v01",
    "count_deltas_v01",
    "tallies_v01",
    "samples_v01",
    "schedules_v01",
    "cron_occurrences_v01",
    "queue_policies_v01",
    "limits_v01",
    "starts_v01",
    "turns_v01",
    "breakers_v01",
    "audit_v01",
    "bulk_operations_v01",
]

# In the order in which PostgreSQL can check their bodies: what is called stands before what calls it.
FUNCTIONS = [
    "schema_version_v01",
    "channel_v01",
    "notify_due_v01",
    "notify_inserted_v01",
    "partition_queues_v01",
    "partition_of_v01",
    "recount_batches_v01",
    "fold_batch_counts_v01",
    "fold_tallies_v01",
    "fold_counts_v01",
    "join_batches_v01",
    "open_batch_v01",
    "seal_batch_v01",
    "count_changes_v01",
    "recount_queue_v01",
    "install_triggers_v01",
    "set_storage_v01",
    "create_queue_v01",
    "rate_room_v01",
    "rate_frees_at_v01",
    "step_breaker_v01",
    "report_breaker_v01",
    "breaker_rooms_v01",
    "start_probes_v01",
    "ask_breakers_v01",
    "trip_breaker_v01",
    "reset_breaker_v01",
    "prune_breakers_v01",
    "prune_starts_v01",
    "key_room_v01",
    "running_by_key_v01",
    "units_v01",
    "candidates_v01",
    "fit_v01",
    "choose_in_turn_v01",
    "choose_v01",
    "admit_v01",
    "record_starts_v01",
    "each_row_v01",
    "claim_v01",
    "claim_many_v01",
    "complete_v01",
    "complete_many_v01",
    "release_v01",
    "release_many_v01",
    "touch_v01",
    "touch_many_v01",
    "backoff_ms_v01",
    "push_error_v01",
    "failure_entry_v01",
    "fingerprint_v01",
    "apply_failure_v01",
    "waits_until_v01",
    "resolve_dependencies_v01",
    "depend_v01",
    "replace_v01",
    "sweep_dependencies_v01",
    "cancel_batch_v01",
    "enqueue_callback_v01",
    "finish_batches_v01",
    "store_results_v01",
    "prune_results_v01",
    "fail_v01",
    "snooze_v01",
    "checkpoint_v01",
    "step_v01",
    "progress_many_v01",
    "progress_v01",
    "last_sign_v01",
    "expire_v01",
    "reap_v01",
    "settle_worker_v01",
    "prune_state_v01",
    "prune_v01",
    "prune_occurrences_v01",
    "heartbeat_v01",
    "stop_worker_v01",
    "cancel_v01",
    "discard_v01",
    "retry_v01",
    "run_now_v01",
    "set_priority_v01",
    "replace_args_v01",
    "delete_v01",
    "move_v01",
    "pause_v01",
    "queues_with_work_v01",
    "resume_v01",
    "blocked_until_v01",
    "next_due_v01",
    "sample_v01",
    "plan_figures_v01",
    "set_verdict_v01",
    "verdicts_v01",
    "claim_due_schedules_v01",
    "set_aside_schedule_v01",
    "clear_set_aside_v01",
    "replan_edited_v01",
    "occurrence_token_v01",
    "enqueue_scheduled_v01",
    "fire_occurrence_v01",
    "fire_schedule_v01",
    "skip_schedule_v01",
    "run_schedule_v01",
    "vacuum_health_v01",
    "index_density_v01",
    "long_transactions_v01",
    "partition_health_v01",
]


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                InstallFunctions("unlogged_losses_v01"),  # the counts' view calls it
                InstallTables(*TABLES),
                InstallFunctions(*FUNCTIONS),
                InstallTriggers("jobs_v01", "stampeded_notify"),
                InstallTriggers("schedules_v01", "stampeded_clear_set_aside"),
            ],
            state_operations=[
                migrations.CreateModel(
                    name="Batch",
                    fields=[
                        (
                            "id",
                            models.UUIDField(
                                db_default=django_stampeded.models.UUID7(), editable=False, primary_key=True, serialize=False
                            ),
                        ),
                        ("name", models.TextField(verbose_name="name")),
                        ("parent_id", models.UUIDField(null=True, verbose_name="parent batch")),
                        ("on_complete", models.JSONField(null=True, verbose_name="on completion")),
                        ("on_success", models.JSONField(null=True, verbose_name="on success")),
                        ("on_failure", models.JSONField(null=True, verbose_name="on the first failure")),
                        ("meta", models.JSONField(db_default=models.Value({}, models.JSONField()), verbose_name="meta")),
                        (
                            "created_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now(), verbose_name="created at"
                            ),
                        ),
                        ("sealed_at", models.DateTimeField(null=True, verbose_name="sealed at")),
                        ("failed_at", models.DateTimeField(null=True, verbose_name="first failure at")),
                        ("finished_at", models.DateTimeField(null=True, verbose_name="finished at")),
                        ("counts", models.JSONField(null=True, verbose_name="counts")),
                        ("succeeded", models.BooleanField(null=True, verbose_name="all completed")),
                        ("callback_error", models.TextField(null=True, verbose_name="error of a callback")),
                    ],
                    options={
                        "verbose_name": "batch",
                        "verbose_name_plural": "batches",
                        "db_table": "stampeded_batches",
                    },
                ),
                migrations.CreateModel(
                    name="BatchDelta",
                    fields=[
                        ("batch_id", models.UUIDField(primary_key=True, serialize=False)),
                        ("state", models.TextField()),
                        ("n", models.BigIntegerField()),
                    ],
                    options={
                        "db_table": "stampeded_batch_deltas",
                    },
                ),
                migrations.CreateModel(
                    name="Dependency",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "parent_id", "child_id", blank=True, editable=False, primary_key=True, serialize=False
                            ),
                        ),
                        ("parent_queue", models.TextField()),
                        ("parent_id", models.UUIDField()),
                        ("child_queue", models.TextField()),
                        ("child_id", models.UUIDField()),
                        ("due_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ("on_discard", models.TextField(db_default="fail")),
                        ("missed", models.BooleanField(db_default=False)),
                    ],
                    options={
                        "db_table": "stampeded_dependencies",
                    },
                ),
                migrations.CreateModel(
                    name="Result",
                    fields=[
                        ("job_id", models.UUIDField(primary_key=True, serialize=False)),
                        ("queue", models.TextField()),
                        ("value", models.JSONField()),
                        ("stored_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ("expires_at", models.DateTimeField()),
                    ],
                    options={
                        "db_table": "stampeded_results",
                    },
                ),
                migrations.CreateModel(
                    name="Tally",
                    fields=[
                        ("queue", models.TextField(primary_key=True, serialize=False)),
                        ("what", models.TextField()),
                        ("n", models.BigIntegerField()),
                    ],
                    options={
                        "db_table": "stampeded_tallies",
                    },
                ),
                migrations.CreateModel(
                    name="Sample",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "queue", "slot", blank=True, editable=False, primary_key=True, serialize=False
                            ),
                        ),
                        ("queue", models.TextField()),
                        ("slot", models.BigIntegerField()),
                        ("at", models.DateTimeField()),
                        ("seconds", models.FloatField(null=True)),
                        ("available", models.BigIntegerField()),
                        ("retryable", models.BigIntegerField()),
                        ("executing", models.BigIntegerField()),
                        ("oldest_waiting_secs", models.FloatField(null=True)),
                        ("completed", models.BigIntegerField()),
                        ("discarded", models.BigIntegerField()),
                        ("cancelled", models.BigIntegerField()),
                        ("failures", models.JSONField(db_default=models.Value({}, models.JSONField()))),
                        (
                            "final_counts",
                            django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), size=None),
                        ),
                    ],
                    options={
                        "db_table": "stampeded_samples",
                    },
                ),
                migrations.CreateModel(
                    name="Progress",
                    fields=[
                        ("job_id", models.UUIDField(primary_key=True, serialize=False)),
                        ("attempt", models.SmallIntegerField()),
                        ("done", models.BigIntegerField()),
                        ("total", models.BigIntegerField(null=True)),
                        ("message", models.TextField(db_default="")),
                        ("updated_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                    ],
                    options={
                        "db_table": "stampeded_progress",
                    },
                ),
                migrations.CreateModel(
                    name="QueueCount",
                    fields=[
                        ("queue", models.TextField(primary_key=True, serialize=False)),
                        ("state", models.TextField()),
                        ("n", models.BigIntegerField()),
                    ],
                    options={
                        "db_table": "stampeded_queue_counts",
                        "managed": False,
                    },
                ),
                migrations.CreateModel(
                    name="AuditEntry",
                    fields=[
                        ("id", models.BigAutoField(primary_key=True, serialize=False)),
                        (
                            "at",
                            models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), verbose_name="at"),
                        ),
                        ("actor", models.TextField(verbose_name="by")),
                        ("action", models.TextField(verbose_name="action")),
                        ("queue", models.TextField(null=True, verbose_name="queue")),
                        ("job_id", models.UUIDField(null=True, verbose_name="job")),
                        (
                            "detail",
                            models.JSONField(db_default=models.Value({}, models.JSONField()), verbose_name="detail"),
                        ),
                    ],
                    options={
                        "verbose_name": "audit entry",
                        "verbose_name_plural": "audit log",
                        "db_table": "stampeded_audit",
                    },
                ),
                migrations.CreateModel(
                    name="CountDelta",
                    fields=[
                        ("queue", models.TextField(primary_key=True, serialize=False)),
                        ("state", models.TextField()),
                        ("n", models.BigIntegerField()),
                    ],
                    options={
                        "db_table": "stampeded_count_deltas",
                    },
                ),
                migrations.CreateModel(
                    name="CronOccurrence",
                    fields=[
                        ("id", models.BigAutoField(primary_key=True, serialize=False)),
                        ("occurrence_token", models.TextField(verbose_name="occurrence")),
                        ("job_id", models.UUIDField(null=True, verbose_name="job")),
                        (
                            "enqueued_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now(),
                                verbose_name="enqueued at",
                            ),
                        ),
                        ("planned_at", models.DateTimeField(null=True, verbose_name="planned for")),
                        ("skipped", models.TextField(null=True, verbose_name="skipped because")),
                    ],
                    options={
                        "verbose_name": "occurrence",
                        "verbose_name_plural": "occurrences",
                        "db_table": "stampeded_cron_occurrences",
                    },
                ),
                migrations.CreateModel(
                    name="Job",
                    fields=[
                        (
                            "id",
                            models.UUIDField(
                                db_default=django_stampeded.models.UUID7(),
                                editable=False,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        ("queue", models.TextField(verbose_name="queue")),
                        ("tenant_id", models.TextField(null=True, verbose_name="tenant")),
                        ("task", models.TextField(verbose_name="task")),
                        (
                            "args",
                            models.JSONField(db_default=models.Value({}, models.JSONField()), verbose_name="arguments"),
                        ),
                        (
                            "meta",
                            models.JSONField(db_default=models.Value({}, models.JSONField()), verbose_name="meta"),
                        ),
                        (
                            "state",
                            models.TextField(
                                choices=[
                                    ("available", "available"),
                                    ("claimed", "claimed"),
                                    ("executing", "executing"),
                                    ("retryable", "retryable"),
                                    ("completed", "completed"),
                                    ("discarded", "discarded"),
                                    ("cancelled", "cancelled"),
                                ],
                                db_default="available",
                                verbose_name="state",
                            ),
                        ),
                        ("priority", models.SmallIntegerField(db_default=0, verbose_name="priority")),
                        ("destination", models.TextField(null=True, verbose_name="destination")),
                        (
                            "scheduled_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now(),
                                verbose_name="scheduled at",
                            ),
                        ),
                        (
                            "expire_seconds",
                            models.IntegerField(db_default=3600, verbose_name="expires after (s)"),
                        ),
                        ("heartbeat_at", models.DateTimeField(null=True, verbose_name="last heartbeat")),
                        ("attempt", models.SmallIntegerField(db_default=0, verbose_name="attempt")),
                        (
                            "max_attempts",
                            models.SmallIntegerField(db_default=25, verbose_name="max. attempts"),
                        ),
                        (
                            "attempted_by",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.TextField(),
                                db_default=models.Value(
                                    [],
                                    django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None),
                                ),
                                size=None,
                                verbose_name="attempted by",
                            ),
                        ),
                        (
                            "interruptions",
                            models.SmallIntegerField(db_default=0, verbose_name="interruptions"),
                        ),
                        (
                            "max_interruptions",
                            models.SmallIntegerField(db_default=1, verbose_name="max. interruptions"),
                        ),
                        ("deferrals", models.SmallIntegerField(db_default=0, verbose_name="deferrals")),
                        (
                            "max_deferrals",
                            models.SmallIntegerField(db_default=100, verbose_name="max. deferrals"),
                        ),
                        ("checkpoint", models.JSONField(null=True, verbose_name="checkpoint")),
                        ("checkpoint_at", models.DateTimeField(null=True, verbose_name="checkpoint at")),
                        (
                            "checkpoint_seq",
                            models.IntegerField(db_default=0, verbose_name="checkpoint number"),
                        ),
                        (
                            "backoff_base_ms",
                            models.SmallIntegerField(db_default=1000, verbose_name="back-off base (ms)"),
                        ),
                        (
                            "backoff_max_ms",
                            models.IntegerField(db_default=3600000, verbose_name="longest back-off (ms)"),
                        ),
                        ("claimed_by", models.UUIDField(null=True, verbose_name="claimed by")),
                        ("claimed_at", models.DateTimeField(null=True, verbose_name="claimed at")),
                        ("dedup_scope", models.TextField(null=True, verbose_name="dedup scope")),
                        ("dedup_period", models.TextField(null=True, verbose_name="dedup period")),
                        (
                            "dedup_key",
                            models.GeneratedField(
                                db_persist=True,
                                expression=django_stampeded.models.DedupKey(),
                                output_field=models.BinaryField(),
                            ),
                        ),
                        (
                            "failure_kind",
                            models.TextField(
                                choices=[
                                    ("raised", "raised"),
                                    ("timed_out", "timed_out"),
                                    ("heartbeat_lost", "heartbeat_lost"),
                                    ("worker_exited", "worker_exited"),
                                    ("worker_missing", "worker_missing"),
                                    ("breaker_open", "breaker_open"),
                                    ("throttled", "throttled"),
                                    ("cancelled", "cancelled"),
                                    ("unrecoverable", "unrecoverable"),
                                ],
                                null=True,
                                verbose_name="failure",
                            ),
                        ),
                        ("last_error", models.TextField(null=True, verbose_name="last error")),
                        (
                            "errors",
                            models.JSONField(db_default=models.Value([], models.JSONField()), verbose_name="errors"),
                        ),
                        (
                            "error_fingerprint",
                            models.BinaryField(null=True, verbose_name="error fingerprint"),
                        ),
                        ("dead_letter_queue", models.TextField(null=True, verbose_name="dead-letter queue")),
                        ("source_id", models.UUIDField(null=True, verbose_name="source job")),
                        ("source_queue", models.TextField(null=True, verbose_name="source queue")),
                        (
                            "source_attempts",
                            models.SmallIntegerField(null=True, verbose_name="source attempts"),
                        ),
                        (
                            "inserted_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now(),
                                verbose_name="enqueued at",
                            ),
                        ),
                        ("finished_at", models.DateTimeField(null=True, verbose_name="finished at")),
                        ("interrupted_checkpoint", models.BinaryField(null=True)),
                        ("batch_id", models.UUIDField(null=True, verbose_name="batch")),
                        ("limit_key", models.TextField(null=True, verbose_name="limit key")),
                    ],
                    options={
                        "verbose_name": "job",
                        "verbose_name_plural": "jobs",
                        "db_table": "stampeded_jobs",
                        "permissions": [
                            ("retry_job", "Can retry jobs"),
                            ("discard_job", "Can discard jobs"),
                            ("cancel_job", "Can cancel jobs"),
                            ("run_job", "Can run jobs now"),
                            ("move_job", "Can move jobs to another queue"),
                            ("prioritise_job", "Can change the priority of jobs"),
                            ("edit_job", "Can change the arguments of jobs"),
                            ("enqueue_job", "Can enqueue jobs"),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name="BulkOperation",
                    fields=[
                        ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                        ("action", models.TextField(verbose_name="action")),
                        ("actor", models.TextField(verbose_name="by")),
                        ("via", models.TextField()),
                        ("selection", models.JSONField(verbose_name="selection")),
                        ("parameters", models.JSONField(db_default=models.Value({}, models.JSONField()), verbose_name="parameters")),
                        ("expected", models.BigIntegerField(verbose_name="expected")),
                        ("exact", models.BooleanField(verbose_name="counted exactly")),
                        ("position", models.TextField(db_default="")),
                        ("done", models.BigIntegerField(db_default=0, verbose_name="done")),
                        ("skipped", models.BigIntegerField(db_default=0, verbose_name="skipped")),
                        ("skips", models.JSONField(db_default=models.Value([], models.JSONField()))),
                        ("state", models.TextField(choices=[("waiting", "waiting"), ("running", "running"), ("finished", "finished"), ("stopped", "stopped")], db_default="waiting", verbose_name="state")),
                        ("queue", models.TextField(null=True, verbose_name="queue")),
                        ("job_id", models.UUIDField(null=True, verbose_name="job")),
                        ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), verbose_name="asked for at")),
                        ("updated_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), verbose_name="latest progress at")),
                        ("finished_at", models.DateTimeField(null=True, verbose_name="ended at")),
                    ],
                    options={
                        "verbose_name": "bulk operation",
                        "verbose_name_plural": "bulk operations",
                        "db_table": "stampeded_bulk_operations",
                    },
                ),
                migrations.CreateModel(
                    name="QueuePolicy",
                    fields=[
                        ("queue", models.TextField(primary_key=True, serialize=False, verbose_name="queue")),
                        (
                            "max_running",
                            models.PositiveIntegerField(blank=True, null=True, verbose_name="max. running"),
                        ),
                        (
                            "max_wait_secs",
                            models.PositiveIntegerField(blank=True, null=True, verbose_name="max. wait (s)"),
                        ),
                        (
                            "verdict",
                            models.TextField(
                                choices=[("steady", "steady"), ("rush", "rush"), ("hold", "hold")],
                                db_default="steady",
                                editable=False,
                                verbose_name="verdict",
                            ),
                        ),
                        ("reason", models.TextField(editable=False, null=True, verbose_name="reason")),
                        (
                            "decided_at",
                            models.DateTimeField(editable=False, null=True, verbose_name="decided at"),
                        ),
                        (
                            "created_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now(),
                                editable=False,
                                verbose_name="created at",
                            ),
                        ),
                        (
                            "updated_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now(),
                                editable=False,
                                verbose_name="updated at",
                            ),
                        ),
                        (
                            "paused_at",
                            models.DateTimeField(editable=False, null=True, verbose_name="paused at"),
                        ),
                        (
                            "paused_reason",
                            models.TextField(editable=False, null=True, verbose_name="paused because"),
                        ),
                        (
                            "paused_until",
                            models.DateTimeField(editable=False, null=True, verbose_name="paused until"),
                        ),
                        (
                            "rate_limit",
                            models.PositiveIntegerField(blank=True, null=True, verbose_name="starts"),
                        ),
                        (
                            "rate_period_secs",
                            models.PositiveIntegerField(blank=True, null=True, verbose_name="in so many seconds"),
                        ),
                        (
                            "fair_tenants",
                            models.BooleanField(db_default=False, verbose_name="fair shares of tenants"),
                        ),
                        (
                            "keep_completed_secs",
                            models.PositiveIntegerField(blank=True, null=True, verbose_name="keep completed (s)"),
                        ),
                        (
                            "keep_discarded_secs",
                            models.PositiveIntegerField(blank=True, null=True, verbose_name="keep discarded (s)"),
                        ),
                        (
                            "keep_cancelled_secs",
                            models.PositiveIntegerField(blank=True, null=True, verbose_name="keep cancelled (s)"),
                        ),
                    ],
                    options={
                        "verbose_name": "queue policy",
                        "verbose_name_plural": "queue policies",
                        "db_table": "stampeded_queue_policies",
                        "permissions": [("pause_queue", "Can pause and resume queues")],
                    },
                ),
                migrations.CreateModel(
                    name="QueueLimit",
                    fields=[
                        ("id", models.BigAutoField(primary_key=True, serialize=False)),
                        (
                            "scope",
                            models.TextField(
                                choices=[("tenant", "tenant"), ("destination", "destination"), ("key", "limit key")],
                                verbose_name="of",
                            ),
                        ),
                        ("value", models.TextField(blank=True, null=True, verbose_name="named")),
                        (
                            "max_running",
                            models.PositiveIntegerField(blank=True, null=True, verbose_name="max. running"),
                        ),
                        ("rate_limit", models.PositiveIntegerField(blank=True, null=True, verbose_name="starts")),
                        (
                            "rate_period_secs",
                            models.PositiveIntegerField(blank=True, null=True, verbose_name="in so many seconds"),
                        ),
                        (
                            "queue",
                            models.ForeignKey(
                                db_column="queue",
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="limits",
                                to="stampeded.queuepolicy",
                                verbose_name="queue",
                            ),
                        ),
                    ],
                    options={
                        "verbose_name": "limit",
                        "verbose_name_plural": "limits",
                        "db_table": "stampeded_limits",
                    },
                ),
                migrations.CreateModel(
                    name="Start",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "queue",
                                "scope",
                                "value",
                                "started_at",
                                blank=True,
                                editable=False,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        ("queue", models.TextField()),
                        ("scope", models.TextField()),
                        ("value", models.TextField()),
                        ("started_at", models.DateTimeField()),
                        ("n", models.BigIntegerField()),
                        ("total", models.BigIntegerField()),
                        ("expires_at", models.DateTimeField()),
                    ],
                    options={
                        "db_table": "stampeded_starts",
                    },
                ),
                migrations.CreateModel(
                    name="Turn",
                    fields=[
                        ("queue", models.TextField(primary_key=True, serialize=False)),
                        ("tenant", models.TextField(null=True)),
                        ("grp", models.BigIntegerField(null=True)),
                        ("walked", models.SmallIntegerField(null=True)),
                        ("walked_at", models.DateTimeField(null=True)),
                        ("walked_id", models.UUIDField(null=True)),
                    ],
                    options={
                        "db_table": "stampeded_turns",
                    },
                ),
                migrations.CreateModel(
                    name="Breaker",
                    fields=[
                        ("id", models.BigAutoField(primary_key=True, serialize=False)),
                        (
                            "kind",
                            models.TextField(choices=[("destination", "destination"), ("task", "task")], verbose_name="of"),
                        ),
                        ("key", models.TextField(verbose_name="named")),
                        (
                            "state",
                            models.TextField(
                                choices=[("closed", "closed"), ("open", "open"), ("half_open", "half open")],
                                db_default="closed",
                                verbose_name="state",
                            ),
                        ),
                        ("window_at", models.DateTimeField(null=True, verbose_name="counted since")),
                        ("failures", models.BigIntegerField(db_default=0, verbose_name="failures")),
                        ("successes", models.BigIntegerField(db_default=0, verbose_name="successes")),
                        ("openings", models.IntegerField(db_default=0, verbose_name="openings")),
                        ("opened_at", models.DateTimeField(null=True, verbose_name="opened at")),
                        ("retry_at", models.DateTimeField(null=True, verbose_name="next probes at")),
                        ("reason", models.TextField(null=True, verbose_name="reason")),
                        (
                            "queues",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.TextField(), null=True, size=None, verbose_name="queues"
                            ),
                        ),
                        ("wait_secs", models.FloatField(db_default=30.0, verbose_name="first wait (s)")),
                        ("longest_wait_secs", models.FloatField(db_default=600.0, verbose_name="longest wait (s)")),
                        ("probes", models.IntegerField(db_default=1, verbose_name="probes")),
                        (
                            "updated_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now(), verbose_name="updated at"
                            ),
                        ),
                    ],
                    options={
                        "verbose_name": "circuit breaker",
                        "verbose_name_plural": "circuit breakers",
                        "db_table": "stampeded_breakers",
                        "permissions": [("switch_breaker", "Can trip and reset circuit breakers")],
                    },
                ),
                migrations.CreateModel(
                    name="Schedule",
                    fields=[
                        ("key", models.TextField(primary_key=True, serialize=False, verbose_name="key")),
                        ("queue", models.TextField(verbose_name="queue")),
                        ("task", models.TextField(verbose_name="task")),
                        (
                            "args",
                            models.JSONField(
                                blank=True,
                                db_default=models.Value({}, models.JSONField()),
                                verbose_name="arguments",
                            ),
                        ),
                        (
                            "meta",
                            models.JSONField(
                                blank=True,
                                db_default=models.Value({}, models.JSONField()),
                                verbose_name="meta",
                            ),
                        ),
                        ("tenant_id", models.TextField(blank=True, null=True, verbose_name="tenant")),
                        ("priority", models.SmallIntegerField(db_default=0, verbose_name="priority")),
                        (
                            "interval_secs",
                            models.BigIntegerField(blank=True, null=True, verbose_name="interval (s)"),
                        ),
                        (
                            "cron_expr",
                            models.TextField(blank=True, null=True, verbose_name="cron expression"),
                        ),
                        (
                            "next_run_at",
                            models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), verbose_name="next run"),
                        ),
                        ("last_run_at", models.DateTimeField(blank=True, null=True, verbose_name="last run")),
                        (
                            "dst_policy",
                            models.TextField(
                                blank=True,
                                choices=[("instant", "instant"), ("wall_clock", "wall clock")],
                                db_default="instant",
                                help_text="Left out, the expression decides.",
                                verbose_name="DST policy",
                            ),
                        ),
                        ("timezone", models.TextField(db_default="UTC", verbose_name="time zone")),
                        (
                            "missed_policy",
                            models.TextField(
                                choices=[("once", "run once, late"), ("skip", "skip")],
                                db_default="once",
                                verbose_name="missed runs",
                            ),
                        ),
                        ("paused", models.BooleanField(db_default=False, verbose_name="paused")),
                        (
                            "created_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now(),
                                editable=False,
                                verbose_name="created at",
                            ),
                        ),
                        (
                            "updated_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now(),
                                editable=False,
                                verbose_name="updated at",
                            ),
                        ),
                        (
                            "set_aside_reason",
                            models.TextField(editable=False, null=True, verbose_name="set aside because"),
                        ),
                        (
                            "options",
                            models.JSONField(
                                blank=True,
                                db_default=models.Value({}, models.JSONField()),
                                verbose_name="options of its jobs",
                            ),
                        ),
                        (
                            "overlap_policy",
                            models.TextField(
                                choices=[("allow", "allow"), ("skip", "skip while the last run is going")],
                                db_default="allow",
                                verbose_name="overlapping runs",
                            ),
                        ),
                        (
                            "jitter_secs",
                            models.PositiveIntegerField(db_default=0, verbose_name="jitter (s)"),
                        ),
                        (
                            "last_job_id",
                            models.UUIDField(editable=False, null=True, verbose_name="last job"),
                        ),
                        (
                            "declared",
                            models.JSONField(editable=False, null=True, verbose_name="declared as"),
                        ),
                        (
                            "declared_at",
                            models.DateTimeField(editable=False, null=True, verbose_name="declared at"),
                        ),
                        (
                            "replan",
                            models.BooleanField(db_default=False, editable=False, verbose_name="to be planned"),
                        ),
                    ],
                    options={
                        "verbose_name": "schedule",
                        "verbose_name_plural": "schedules",
                        "db_table": "stampeded_schedules",
                        "permissions": [("run_schedule", "Can run schedules now")],
                    },
                ),
                migrations.CreateModel(
                    name="Worker",
                    fields=[
                        (
                            "id",
                            models.UUIDField(
                                db_default=django_stampeded.models.UUID7(),
                                editable=False,
                                primary_key=True,
                                serialize=False,
                            ),
                        ),
                        ("hostname", models.TextField(verbose_name="node")),
                        ("pid", models.IntegerField(verbose_name="process")),
                        (
                            "queues",
                            django.contrib.postgres.fields.ArrayField(
                                base_field=models.TextField(),
                                db_default=models.Value(
                                    [],
                                    django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None),
                                ),
                                size=None,
                                verbose_name="queues",
                            ),
                        ),
                        (
                            "metadata",
                            models.JSONField(db_default=models.Value({}, models.JSONField()), verbose_name="metadata"),
                        ),
                        (
                            "started_at",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now(),
                                verbose_name="started at",
                            ),
                        ),
                        (
                            "last_heartbeat",
                            models.DateTimeField(
                                db_default=django.db.models.functions.datetime.Now(),
                                verbose_name="last heartbeat",
                            ),
                        ),
                        ("waiting", models.BooleanField(db_default=True, verbose_name="waiting")),
                        (
                            "stop_requested_at",
                            models.DateTimeField(editable=False, null=True, verbose_name="asked to stop at"),
                        ),
                    ],
                    options={
                        "verbose_name": "worker",
                        "verbose_name_plural": "workers",
                        "db_table": "stampeded_workers",
                        "permissions": [("stop_worker", "Can ask workers to stop")],
                    },
                ),
                migrations.AddField(
                    model_name="cronoccurrence",
                    name="cron_key",
                    field=models.ForeignKey(
                        db_column="cron_key",
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="occurrences",
                        to="stampeded.schedule",
                        verbose_name="schedule",
                    ),
                ),
            ],
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="auditentry",
            trigger=pgtrigger.compiler.Trigger(
                name="audit_append_only",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;",
                    hash="5aaa632eda31258403f72663c24c525a2132f719",
                    ignore_func_name="_pgtrigger_should_ignore",
                    operation="UPDATE OR DELETE",
                    pgid="pgtrigger_audit_append_only_48f1d",
                    table="stampeded_audit",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="queuepolicy",
            trigger=pgtrigger.compiler.Trigger(
                name="policy_updated_at",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition='WHEN (OLD."created_at" IS DISTINCT FROM (NEW."created_at") OR OLD."decided_at" IS DISTINCT FROM (NEW."decided_at") OR OLD."fair_tenants" IS DISTINCT FROM (NEW."fair_tenants") OR OLD."keep_cancelled_secs" IS DISTINCT FROM (NEW."keep_cancelled_secs") OR OLD."keep_completed_secs" IS DISTINCT FROM (NEW."keep_completed_secs") OR OLD."keep_discarded_secs" IS DISTINCT FROM (NEW."keep_discarded_secs") OR OLD."max_running" IS DISTINCT FROM (NEW."max_running") OR OLD."max_wait_secs" IS DISTINCT FROM (NEW."max_wait_secs") OR OLD."paused_at" IS DISTINCT FROM (NEW."paused_at") OR OLD."paused_reason" IS DISTINCT FROM (NEW."paused_reason") OR OLD."paused_until" IS DISTINCT FROM (NEW."paused_until") OR OLD."queue" IS DISTINCT FROM (NEW."queue") OR OLD."rate_limit" IS DISTINCT FROM (NEW."rate_limit") OR OLD."rate_period_secs" IS DISTINCT FROM (NEW."rate_period_secs") OR OLD."reason" IS DISTINCT FROM (NEW."reason") OR OLD."verdict" IS DISTINCT FROM (NEW."verdict"))',
                    func="NEW.updated_at := clock_timestamp(); RETURN NEW;",
                    hash="92489d893e4000505b7016337d39f968d9216a7a",
                    ignore_func_name="_pgtrigger_should_ignore",
                    operation="UPDATE",
                    pgid="pgtrigger_policy_updated_at_69a3b",
                    table="stampeded_queue_policies",
                    when="BEFORE",
                ),
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="schedule",
            trigger=pgtrigger.compiler.Trigger(
                name="schedule_updated_at",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition='WHEN (OLD."args" IS DISTINCT FROM (NEW."args") OR OLD."created_at" IS DISTINCT FROM (NEW."created_at") OR OLD."cron_expr" IS DISTINCT FROM (NEW."cron_expr") OR OLD."declared" IS DISTINCT FROM (NEW."declared") OR OLD."dst_policy" IS DISTINCT FROM (NEW."dst_policy") OR OLD."interval_secs" IS DISTINCT FROM (NEW."interval_secs") OR OLD."jitter_secs" IS DISTINCT FROM (NEW."jitter_secs") OR OLD."key" IS DISTINCT FROM (NEW."key") OR OLD."last_job_id" IS DISTINCT FROM (NEW."last_job_id") OR OLD."last_run_at" IS DISTINCT FROM (NEW."last_run_at") OR OLD."meta" IS DISTINCT FROM (NEW."meta") OR OLD."missed_policy" IS DISTINCT FROM (NEW."missed_policy") OR OLD."next_run_at" IS DISTINCT FROM (NEW."next_run_at") OR OLD."options" IS DISTINCT FROM (NEW."options") OR OLD."overlap_policy" IS DISTINCT FROM (NEW."overlap_policy") OR OLD."paused" IS DISTINCT FROM (NEW."paused") OR OLD."priority" IS DISTINCT FROM (NEW."priority") OR OLD."queue" IS DISTINCT FROM (NEW."queue") OR OLD."replan" IS DISTINCT FROM (NEW."replan") OR OLD."set_aside_reason" IS DISTINCT FROM (NEW."set_aside_reason") OR OLD."task" IS DISTINCT FROM (NEW."task") OR OLD."tenant_id" IS DISTINCT FROM (NEW."tenant_id") OR OLD."timezone" IS DISTINCT FROM (NEW."timezone"))',
                    func="NEW.updated_at := clock_timestamp(); RETURN NEW;",
                    hash="aba6a982557238bd0fb8da85abb92140e5424cec",
                    ignore_func_name="_pgtrigger_should_ignore",
                    operation="UPDATE",
                    pgid="pgtrigger_schedule_updated_at_0be3b",
                    table="stampeded_schedules",
                    when="BEFORE",
                ),
            ),
        ),
    ]
