"""The opt-in index of arguments: building and removing it beside live partitions, and what searches make of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse

from django_stampeded import actions, functions, insights
from django_stampeded.insights import Selection, paging
from django_stampeded.models import AuditEntry, Job

ANN = actions.Actor("ann")
WHOLE = "CREATE INDEX stampeded_jobs_arguments ON stampeded_jobs USING gin (args jsonb_path_ops)"


def execute(*statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def parts() -> dict[str, bool]:
    """Each partition's part of the index that is attached, and whether it is valid."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT x.indrelid::regclass::text, x.indisvalid FROM pg_inherits i JOIN pg_index x ON x.indexrelid = i.inhrelid "
            "WHERE i.inhparent = to_regclass('stampeded_jobs_arguments')"
        )
        return dict(cursor.fetchall())


def partition_of(queue: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT stampeded_partition_of(%s)::text", [queue])
        return str(cursor.fetchone()[0])


@pytest.fixture
def partition(transactional_db: None) -> Iterator[str]:
    with connection.cursor() as cursor:
        functions.create_queue(cursor, "own")
    yield partition_of("own")
    execute("DROP INDEX IF EXISTS stampeded_jobs_arguments")
    for queue in ("own", "later"):
        if (table := partition_of(queue)) != "None":
            execute(f"DROP TABLE {table}")


def test_the_index_is_built_for_every_partition_and_later_ones_get_it_too(partition: str) -> None:
    call_command("stampeded", "index-arguments")
    assert insights.arguments_are_indexed()
    assert parts() == {"stampeded_jobs_default": True, partition: True}
    with connection.cursor() as cursor:
        functions.create_queue(cursor, "later")
    assert parts()[partition_of("later")]
    assert insights.arguments_are_indexed()
    call_command("stampeded", "index-arguments")  # nothing is left to do
    call_command("stampeded", "index-arguments", "--remove")
    assert parts() == {} and not insights.arguments_are_indexed()
    acts = list(AuditEntry.objects.order_by("id").values_list("action", flat=True))
    assert acts == ["index_arguments", "index_arguments", "drop_arguments_index"]


def test_a_build_that_was_interrupted_is_taken_up_again_or_cleared_away(partition: str) -> None:
    left = "CREATE INDEX stampeded_jobs_default_args ON stampeded_jobs_default USING gin (args jsonb_path_ops)"
    invalid = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'stampeded_jobs_default_args'::regclass"
    begun = "CREATE INDEX stampeded_jobs_arguments ON ONLY stampeded_jobs USING gin (args jsonb_path_ops)"
    execute(left, invalid, begun)
    assert not insights.arguments_are_indexed()
    actions.index_arguments(actor=ANN)
    assert insights.arguments_are_indexed()
    actions.drop_arguments_index(actor=ANN)
    execute(left, invalid)
    actions.drop_arguments_index(actor=ANN)
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('stampeded_jobs_default_args')")
        assert cursor.fetchone() == (None,)


def test_inside_a_transaction_nothing_is_built(transactional_db: None) -> None:
    with transaction.atomic(), pytest.raises(ValueError, match="outside any transaction"):
        actions.index_arguments(actor=ANN)
    assert parts() == {}


@pytest.fixture
def many(db: None, make_job: Any) -> list[Job]:
    states = ("available", "completed", "discarded", "available")
    return [make_job(args={"user_id": n % 5, "n": n}, state=states[n % 4], tenant_id=f"t{n % 3}") for n in range(40)]


SELECTIONS = [
    Selection(text="user_id:3"),
    Selection(text="user_id=3", state="completed"),
    Selection(text="user_id=3", state="available", tenant="t1"),
    Selection(text="user_id=3", queue="mail", task="shop.send"),
    Selection(text="user_id=3", queue="other"),
    Selection(text="user_id=9"),
    Selection(text='user_id="3"'),
    Selection(text="user_id=3", since="1h", state="completed"),
]


@pytest.mark.django_db
@pytest.mark.parametrize("window", [3, 10_000], ids=["more than a page looks at", "few"])
def test_searches_find_the_same_with_the_index_and_without(
    many: list[Job], monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    def found(selection: Selection) -> list[str]:
        ids: list[str] = []
        cursor, more = "", True
        while more:
            page = insights.page(selection, size=3, cursor=cursor)
            ids += [str(job.pk) for job in page.jobs]
            cursor, more = page.older, bool(page.older)
        return ids

    def meant(selection: Selection) -> list[Any]:
        group = actions.group("delete", selection, {})
        return sorted(job_id for _queue, job_id in insights.portion(group, size=100).jobs)

    before = [(sorted(found(each)), meant(each)) for each in SELECTIONS]
    execute(WHOLE)
    monkeypatch.setattr(paging, "WINDOW", window)
    after = [found(each) for each in SELECTIONS]
    assert [sorted(ids) for ids in after] == [ids for ids, _meant in before]
    if window > len(many):
        assert all(ids == sorted(ids, reverse=True) for ids in after)  # the newest first, in every state
        assert [meant(each) for each in SELECTIONS] == [ids for _found, ids in before]
    assert len(after[0]) == 8


@pytest.mark.django_db
def test_pages_go_back_and_forth_over_what_the_index_finds(many: list[Job]) -> None:
    execute(WHOLE)
    selection = Selection(text="user_id:3")
    first = insights.page(selection, size=3)
    second = insights.page(selection, size=3, cursor=first.older)
    assert [job.pk for job in insights.page(selection, size=3, cursor=second.newer).jobs] == [job.pk for job in first.jobs]
    assert (first.newer, first.searched, second.searched) == ("", None, None)
    assert insights.page(selection).total == 8


@pytest.mark.django_db
def test_an_error_that_looks_like_an_argument_is_still_found(make_job: Any) -> None:
    job = make_job(state="discarded", last_error="ValueError: no\nsee https://example.org/x", args={"ValueError": "yes"})
    make_job(args={"https": "//example.org"}, task="other")
    for text in ("ValueError: no", "https://example.org/x"):
        assert [each.pk for each in insights.page(Selection(text=text)).jobs] == [job.pk]
    assert insights.page(Selection(text="ValueError:no")).jobs == []


@pytest.mark.django_db
def test_the_page_says_how_to_get_the_index_until_it_is_there(
    root: Client, many: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "WINDOW", 10)
    address = reverse("admin:stampeded_job_changelist")
    assert "stampeded index-arguments" in root.get(address, {"q": "user_id:3"}).content.decode()
    assert "stampeded index-arguments" not in root.get(address, {"q": "some text"}).content.decode()
    execute(WHOLE)
    assert "stampeded index-arguments" not in root.get(address, {"q": "user_id:3"}).content.decode()
