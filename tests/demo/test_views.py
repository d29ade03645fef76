"""The example's page: who sees it, what it shows, and that its button enqueues."""

from __future__ import annotations

import pytest
from django.urls import reverse

from django_stampeded.models import Job
from example_project.imports import csv_file, tasks

pytestmark = pytest.mark.django_db


@pytest.fixture
def airports(tmp_path):
    return tasks.start_import(csv_file.airports(), tmp_path, 3)


def test_a_visitor_is_asked_to_log_in(client):
    answer = client.get(reverse("imports:index"))
    assert answer.status_code == 302
    assert "login" in answer.url


def test_the_page_shows_how_far_an_import_has_come(admin_client, airports):
    tasks.import_file(airports.pk)
    tasks.examine_record(airports.pk, airports.records.first().pk)
    assert "1 of 3" in admin_client.get(reverse("imports:index")).content.decode()


def test_the_page_says_how_to_begin_where_there_is_no_import(admin_client):
    assert "manage.py demo" in admin_client.get(reverse("imports:index")).content.decode()


def test_the_button_imports_the_file_once_more(admin_client, airports):
    answer = admin_client.post(reverse("imports:again", args=[airports.pk]))
    assert answer.url == reverse("imports:index")
    assert Job.objects.filter(task=tasks.import_file.name).count() == 2


def test_a_get_request_starts_nothing(admin_client, airports):
    assert admin_client.get(reverse("imports:again", args=[airports.pk])).status_code == 405
    assert Job.objects.count() == 1


def test_a_report_is_shown_once_it_is_written(admin_client, airports):
    address = reverse("imports:report", args=[airports.pk])
    assert admin_client.get(address).status_code == 404
    tasks.import_file(airports.pk)
    for record in airports.records.all():
        tasks.examine_record(airports.pk, record.pk)
    tasks.write_report(airports.pk)
    assert "Groups" in admin_client.get(address).content.decode()


def test_the_records_can_be_looked_at_in_the_admin(admin_client, airports):
    tasks.import_file(airports.pk)
    assert admin_client.get(reverse("admin:imports_record_changelist")).status_code == 200
    assert admin_client.get(reverse("admin:imports_csvimport_changelist")).status_code == 200
