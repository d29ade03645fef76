"""The background jobs of an import, from the file to the mail; a page that starts one calls `start_import`.

Every job writes its rows and enqueues what follows in one transaction, so that neither is there without the
other. A job may run twice (a worker can die after the work and before it says so): each looks first whether
its work is already done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from functools import lru_cache
from itertools import islice
from pathlib import Path

from django.core.mail import EmailMessage
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from django_stampeded import Discard, JobContext, Snooze, task
from example_project.imports import csv_file, report, services
from example_project.imports.csv_file import CsvProblem
from example_project.imports.geometry import Map, Place
from example_project.imports.models import CsvImport, Record

ROWS_AT_ONCE = 500
REFERENCE_EVERY = 25
PUBLISH_ATTEMPTS = 3


def start_import(source: Path, into: Path, row_limit: int | None = None) -> CsvImport:
    """Notes an import down and enqueues its first job: both or neither. The report goes below `into`."""
    with transaction.atomic():
        started = CsvImport.objects.create(source=str(source), row_limit=row_limit)
        started.folder = str(into / f"import-{started.pk}")
        started.save(update_fields=["folder"])
        import_file.enqueue(import_id=started.pk)
    return started


@task(queue_name="imports", max_attempts=3)
def import_file(import_id: int) -> None:
    """Writes a record for every row and enqueues a job for every record, all in one transaction."""
    with transaction.atomic():
        source = CsvImport.objects.select_for_update().get(pk=import_id)
        if source.total is not None:
            return
        source.total = 0
        try:
            for rows in _portions(csv_file.read(Path(source.source), source.row_limit)):
                records = Record.objects.bulk_create([_record(source, row) for row in rows])
                examine_record.enqueue_many([{"import_id": import_id, "record_id": it.pk} for it in records])
                source.total += len(records)
        except CsvProblem as problem:
            raise Discard(str(problem)) from None
        source.save(update_fields=["total"])
        write_report.enqueue(import_id=import_id)


@task(queue_name="records")
def examine_record(import_id: int, record_id: int) -> None:
    """Finds a record's gaps and its nearest neighbour; some records need a reference of the registry too."""
    record = Record.objects.get(pk=record_id)
    neighbour = None
    if record.latitude is not None and record.longitude is not None:
        place = Place(record.latitude, record.longitude, record.pk)
        neighbour = map_of(import_id).nearest(place)
    with transaction.atomic():
        first_time = Record.objects.filter(pk=record_id, examined_at=None).update(
            gaps=csv_file.gaps(record.cells),
            nearest_id=neighbour.key if neighbour else None,
            distance_km=neighbour.distance_km if neighbour else None,
            examined_at=timezone.now(),
        )
        if first_time and record.needs_reference:
            ask_registry.enqueue(import_id=import_id, record_id=record_id)


@task(queue_name="registry", backoff_base=0.2, backoff_max=2, takes_context=True)
def ask_registry(context: JobContext, import_id: int, record_id: int) -> None:
    """Asks a busy registry for the record's reference; each refusal is a failure that is retried later."""
    label = Record.objects.values_list("label", flat=True).get(pk=record_id)
    reference = services.reference_for(label, context.attempt)
    Record.objects.filter(pk=record_id).update(reference=reference)


@task(queue_name="reports", priority=10)
def write_report(import_id: int) -> None:
    """Writes the report once the last record is done; until then it gives its attempt back and waits."""
    source = CsvImport.objects.get(pk=import_id)
    if source.reported_at is not None:
        return
    undone = Q(examined_at=None) | Q(needs_reference=True, reference="")
    if source.records.filter(undone).exists():
        raise Snooze(timedelta(milliseconds=300), "some records are not done yet")
    report.write(source)
    with transaction.atomic():
        source.reported_at = timezone.now()
        source.save(update_fields=["reported_at"])
        mail_report.enqueue(import_id=import_id)
        publish_report.enqueue(import_id=import_id)


@task(queue_name="reports")
def mail_report(import_id: int) -> None:
    """Mails the report with its table attached."""
    source = CsvImport.objects.get(pk=import_id)
    message = EmailMessage(
        subject=f"Report: {source}",
        body=report.summary(source),
        from_email="imports@example.com",
        to=["curator@example.com"],
    )
    message.attach_file(str(source.report_csv), "text/csv")
    message.send()


@task(queue_name="reports", max_attempts=PUBLISH_ATTEMPTS, backoff_base=0.2, backoff_max=1)
def publish_report(import_id: int) -> None:
    """Sends the report to a partner that never answers: after its last attempt the job is discarded."""
    services.publish(str(CsvImport.objects.get(pk=import_id)))


@lru_cache(maxsize=4)
def map_of(import_id: int) -> Map:
    """The places of an import; they never change once it has committed, so a process reads them once."""
    located = Record.objects.filter(csv_import_id=import_id, latitude__isnull=False, longitude__isnull=False)
    return Map(Place(*row) for row in located.values_list("latitude", "longitude", "pk"))  # type: ignore[arg-type]


def _record(source: CsvImport, row: csv_file.Row) -> Record:
    return Record(
        csv_import=source,
        number=row.number,
        label=row.label,
        group=row.group,
        latitude=row.latitude,
        longitude=row.longitude,
        cells=row.cells,
        needs_reference=row.number % REFERENCE_EVERY == 0,
    )


def _portions(rows: Iterable[csv_file.Row]) -> Iterator[list[csv_file.Row]]:
    remaining = iter(rows)
    while portion := list(islice(remaining, ROWS_AT_ONCE)):
        yield portion
