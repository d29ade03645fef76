"""The example's jobs, run one by one: what each leaves in the database, also when it runs twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core import mail

from django_stampeded import Discard, Snooze
from django_stampeded.models import Job
from example_project.imports import csv_file, services, tasks
from example_project.imports.demo.outcome import Outcome, differences, observed, planned
from example_project.imports.models import CsvImport

pytestmark = pytest.mark.django_db

ROWS = 60


@pytest.fixture
def airports(tmp_path: Path) -> CsvImport:
    """An import of the first airports that has not begun."""
    return tasks.start_import(csv_file.airports(), tmp_path, ROWS)


@pytest.fixture
def examined(airports: CsvImport) -> CsvImport:
    """The same with every record done."""
    tasks.import_file(airports.pk)
    for record in airports.records.all():
        tasks.examine_record(airports.pk, record.pk)
    airports.records.filter(needs_reference=True).update(reference="R-1")
    airports.refresh_from_db()
    return airports


def jobs_of(task: str) -> int:
    return Job.objects.filter(task=f"example_project.imports.tasks.{task}").count()


def test_starting_an_import_enqueues_its_first_job(airports):
    assert Job.objects.get().args == {"import_id": airports.pk}
    assert airports.report_html.parent.name == f"import-{airports.pk}"


def test_a_file_is_imported_with_a_job_for_each_of_its_rows(airports):
    tasks.import_file(airports.pk)
    airports.refresh_from_db()
    assert airports.total == airports.records.count() == jobs_of("examine_record") == ROWS
    assert jobs_of("write_report") == 1


def test_a_file_imported_twice_has_its_rows_once(airports):
    tasks.import_file(airports.pk)
    tasks.import_file(airports.pk)
    assert airports.records.count() == jobs_of("examine_record") == ROWS


def test_a_file_that_turns_bad_half_way_leaves_nothing_behind(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("name,state\n" + "a,b\n" * (tasks.ROWS_AT_ONCE + 1) + "a\n")
    started = tasks.start_import(path, tmp_path)
    with pytest.raises(Discard, match="mend that line"):
        tasks.import_file(started.pk)
    started.refresh_from_db()
    assert started.total is None
    assert started.records.count() == jobs_of("examine_record") == 0


def test_every_record_finds_a_neighbour_that_is_not_itself(examined):
    records = list(examined.records.all())
    assert all(record.nearest_id not in (None, record.pk) for record in records)
    assert all(record.distance_km >= 0 for record in records)


def test_a_record_examined_twice_asks_the_registry_once(examined):
    asking = examined.records.filter(needs_reference=True)
    before = jobs_of("ask_registry")
    assert before == asking.count() == ROWS // tasks.REFERENCE_EVERY
    tasks.examine_record(examined.pk, asking[0].pk)
    assert jobs_of("ask_registry") == before


def test_the_registry_refuses_as_often_as_it_says_and_then_gives_the_same_answer():
    for label in ("Thigpen", "Livingston Municipal", "Meadow Lake", "Perry-Warsaw"):
        refused = services.refusals(label)
        for attempt in range(1, refused + 1):
            with pytest.raises(services.RegistryBusy):
                services.reference_for(label, attempt)
        assert services.reference_for(label, refused + 1) == services.reference_for(label, 9)


def test_the_report_waits_for_the_last_record(airports):
    tasks.import_file(airports.pk)
    with pytest.raises(Snooze):
        tasks.write_report(airports.pk)


def test_the_report_is_written_and_followed_by_its_mail_and_its_publication(examined):
    tasks.write_report(examined.pk)
    tasks.write_report(examined.pk)
    assert "The loneliest places" in examined.report_html.read_text()
    assert examined.report_csv.read_text().startswith("group,records,with_gaps")
    assert jobs_of("mail_report") == jobs_of("publish_report") == 1


def test_the_mail_has_the_table_attached(examined):
    tasks.write_report(examined.pk)
    tasks.mail_report(examined.pk)
    (message,) = mail.outbox
    assert f"{ROWS} records" in message.body
    assert [attached.filename for attached in message.attachments] == ["report.csv"]


def test_publishing_always_fails(examined):
    with pytest.raises(services.PartnerUnreachable):
        tasks.publish_report(examined.pk)


def test_what_is_not_as_planned_is_said_in_sentences(examined):
    plan, found = planned(examined), observed(examined)
    assert not found.finished
    said = differences(plan, found)
    assert "1 jobs of import_file are available where 0 were planned." in said
    assert differences(plan, Outcome(plan.ends, plan.retries, 1.0)) == []


def test_the_plan_counts_every_job(examined):
    assert planned(examined).jobs == 1 + ROWS + ROWS // tasks.REFERENCE_EVERY + 3
