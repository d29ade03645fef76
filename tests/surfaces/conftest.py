"""Users of each kind and jobs in each state, made directly in the tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from django_stampeded.models import Job, Schedule, Worker
from tests.surfaces.browsing import browser, page  # noqa: F401  (fixtures)

MakeUser = Callable[..., Any]
MakeJob = Callable[..., Job]


@pytest.fixture(autouse=True)
def no_declared_schedule(request: pytest.FixtureRequest) -> None:
    """A flush after some other test may have declared that test's schedules anew, as it does permissions."""
    if request.node.get_closest_marker("django_db"):
        request.getfixturevalue("db")
        Schedule.objects.all().delete()


@pytest.fixture
def make_user(db: None, django_user_model: Any) -> MakeUser:
    """make_user("ann", "view_job", "retry_job") is staff with these permissions; superuser=True has all.

    Hashing a password takes long on purpose, so only who logs in by the form gets one.
    """

    def make(name: str, *permissions: str, staff: bool = True, superuser: bool = False, password: str | None = None) -> Any:
        user = django_user_model.objects.create_user(name, password=password, is_staff=staff, is_superuser=superuser)
        for codename in permissions:
            user.user_permissions.add(Permission.objects.get(content_type__app_label="stampeded", codename=codename))
        return user

    return make


@pytest.fixture
def client_of(make_user: MakeUser) -> Callable[..., Client]:
    """client_of("ann", "view_job") is a browser in which that user has logged in."""

    def make(name: str, *permissions: str, **options: Any) -> Client:
        client = Client()
        client.force_login(make_user(name, *permissions, **options))
        return client

    return make


@pytest.fixture
def root(client_of: Callable[..., Client]) -> Client:
    return client_of("root", superuser=True)


@pytest.fixture
def make_job(db: None) -> MakeJob:
    """make_job(state="discarded", queue="mail") with everything else by default."""

    def make(**columns: Any) -> Job:
        columns = {"queue": "mail", "task": "shop.send", **columns}
        if columns.get("state") in {"completed", "discarded", "cancelled"}:
            columns.setdefault("finished_at", "2026-01-02T03:04:05Z")
        job = Job.objects.create(**columns)
        job.refresh_from_db()
        return job

    return make


@pytest.fixture
def make_worker(db: None) -> Callable[..., Worker]:
    def make(**columns: Any) -> Worker:
        worker = Worker.objects.create(**{"hostname": "node1", "pid": 7, "queues": ["mail"], **columns})
        worker.refresh_from_db()
        return worker

    return make
