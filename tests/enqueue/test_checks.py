"""The system checks: each mistake has its id, says what is wrong and what to do."""

from __future__ import annotations

import subprocess
import sys

import pytest
from django.apps import apps
from django.core.checks import run_checks
from django.db import connection, connections
from django.test import override_settings

from django_stampeded import checks, registry, schema, task
from django_stampeded.exceptions import DuplicateTask


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    for name in ("_tasks", "_names"):
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))
    monkeypatch.setattr(registry, "broken", [])


@pytest.fixture
def alias():
    """Sets up an alias with the given settings, and STAMPEDED['DATABASE'] to it."""
    made = []

    def make(**changed):
        connections.settings["elsewhere"] = {**connections.settings["default"], **changed}
        changes = override_settings(STAMPEDED={"DATABASE": "elsewhere"})
        changes.enable()
        made.append(changes)

    yield make
    for changes in made:
        changes.disable()
        del connections["elsewhere"]
        del connections.settings["elsewhere"]


def found(databases=()):
    return {each.id: each for each in run_checks(databases=databases) if each.id.startswith("stampeded.")}


def only(messages, check_id):
    assert list(messages) == [check_id]
    assert messages[check_id].hint
    return messages[check_id].msg


@pytest.mark.django_db
def test_a_project_that_is_set_up_well_has_nothing_to_hear():
    assert found(databases=["default"]) == {}


def test_the_array_fields_need_djangos_postgres_app(monkeypatch):
    monkeypatch.setattr(apps, "is_installed", lambda name: name != "django.contrib.postgres")
    assert only(found(), "stampeded.E001") == "django.contrib.postgres is not in INSTALLED_APPS."


def test_a_project_without_pgtrigger_is_told_before_models_are_imported():
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import django\nfrom django.conf import settings\n"
            "settings.configure(INSTALLED_APPS=['django.contrib.postgres', 'django_stampeded'])\ndjango.setup()",
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr.strip().endswith("django_stampeded needs django-pgtrigger: add 'pgtrigger' to INSTALLED_APPS.")


@override_settings(STAMPEDED={"TREADS": 4})
def test_an_unknown_setting_is_reported():
    assert only(found(), "stampeded.E002") == "STAMPEDED['TREADS'] is not a setting: did you mean THREADS?"


@override_settings(STAMPEDED={"DATABASE": 5, "THREADS": 0})
def test_an_invalid_setting_stops_no_other_check():
    assert [each.id for each in run_checks(databases=["default"]) if each.id.startswith("stampeded.")] == [
        "stampeded.E002",
        "stampeded.E002",
    ]


@override_settings(STAMPEDED={"HEARTBEAT_INTERVAL": 10, "DEAD_AFTER": 29})
def test_a_worker_that_would_be_dead_after_one_late_heartbeat_is_reported():
    assert "DEAD_AFTER" in only(found(), "stampeded.E003")


@override_settings(STAMPEDED={"DATABASE": "nowhere"})
def test_an_alias_that_does_not_exist_is_reported():
    assert only(found(), "stampeded.E004") == "STAMPEDED['DATABASE'] is 'nowhere', which DATABASES does not have."


def test_a_database_that_is_not_postgresql_is_reported(alias):
    alias(ENGINE="django.db.backends.sqlite3", NAME=":memory:", OPTIONS={})
    assert "'elsewhere' that STAMPEDED['DATABASE'] names is not PostgreSQL" in only(found(), "stampeded.E005")


@pytest.mark.parametrize(("pool", "size"), [(True, 4), ({"min_size": 2}, 2), ({"max_size": 7}, 7)])
def test_a_pool_smaller_than_the_job_threads_is_reported(alias, pool, size):
    alias(OPTIONS={"pool": pool})
    assert f"has {size} connections for 8 job threads" in only(found(), "stampeded.W001")


@pytest.mark.parametrize("pool", [False, {}, {"max_size": 8}, {"min_size": 20}])
def test_a_pool_that_is_large_enough_or_not_there_is_fine(alias, pool):
    alias(OPTIONS={"pool": pool})
    assert found() == {}


def test_a_tasks_module_that_did_not_import_is_reported():
    registry.broken.append(registry.BrokenModule("shop.tasks", SyntaxError("invalid syntax")))
    assert only(found(), "stampeded.E006") == "shop.tasks did not import: SyntaxError: invalid syntax"


def test_a_task_name_that_is_used_twice_is_reported():
    registry.broken.append(registry.BrokenModule("shop.tasks", DuplicateTask("Two tasks are called 'x'.")))
    assert only(found(), "stampeded.E007") == "Two tasks are called 'x'."


def test_an_annotation_that_no_argument_can_be_decoded_by_is_reported():
    @task(name="shop.broken")
    def broken(path: "NotImported"): ...  # noqa: F821, UP037

    assert "Task 'shop.broken' has annotations that do not resolve" in only(found(), "stampeded.E008")


@pytest.mark.parametrize(("timeout", "reported"), [(None, False), (59.9, False), (60, True), (3600, True)])
def test_a_timeout_that_is_not_shorter_than_the_expiry_is_reported(timeout, reported):
    task(name="shop.slow", timeout=timeout, expire_seconds=60)(lambda: None)
    assert ("stampeded.W002" in found()) is reported


@pytest.mark.django_db
def test_an_old_server_is_named_with_its_version_and_the_one_needed(monkeypatch):
    monkeypatch.setattr(schema, "OLDEST_SERVER", 990000)
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version")
        version = cursor.fetchone()[0].split()[0]
    message = only(found(databases=["default"]), "stampeded.E009")
    assert "needs PostgreSQL 18" in message and version in message


@pytest.mark.django_db(transaction=True)
def test_a_database_in_another_encoding_is_reported(alias):
    with connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE stampeded_latin1 ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    try:
        alias(NAME="stampeded_latin1")
        connections["elsewhere"].connect()
        message = only(found(databases=["elsewhere"]), "stampeded.E010")
        assert "UTF8" in message and "LATIN1" in message
        connections["elsewhere"].close()
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP DATABASE stampeded_latin1")


@pytest.mark.django_db
def test_missing_tables_are_a_warning_and_none_while_they_are_being_made(monkeypatch):
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL search_path TO pg_catalog")
    assert "run `manage.py migrate stampeded`" in only(found(databases=["default"]), "stampeded.W003")
    monkeypatch.setattr(sys, "argv", ["manage.py", "migrate"])
    assert found(databases=["default"]) == {}


@pytest.mark.django_db
@pytest.mark.parametrize("version", [0, 99])
def test_another_version_of_the_sql_is_reported(monkeypatch, version):
    monkeypatch.setattr(schema, "SCHEMA_VERSION", schema.SCHEMA_VERSION + 5 if version == 0 else -5)
    assert "has version 1 and this code" in only(found(databases=["default"]), "stampeded.W003")


@pytest.mark.django_db(transaction=True)
def test_a_server_that_does_not_answer_is_reported_in_one_sentence(alias):
    alias(HOST="127.0.0.1", PORT=1)
    elsewhere = connections["elsewhere"]

    def connect():
        with elsewhere.wrap_database_errors:
            elsewhere.connect()

    elsewhere.ensure_connection = connect  # past the guard that keeps tests from new aliases
    (found_it,) = checks.check_database(["elsewhere"])  # alone, for a later Django's own checks would fail before it
    assert found_it.id == "stampeded.E011" and found_it.hint
    assert found_it.msg.startswith("The database 'elsewhere' does not answer: ") and "\n" not in found_it.msg
