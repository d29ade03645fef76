"""Reading jobs page by page: each exactly once, in bounded steps, whatever happens meanwhile; and going through all of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import Q
from django.utils import timezone

from django_stampeded import insights
from django_stampeded.insights import Group, Selection, paging, walking
from django_stampeded.models import Job

pytestmark = pytest.mark.django_db

STATES = ("available", "retryable", "executing", "completed", "discarded", "cancelled")


def ids_of(jobs: list[Job]) -> list[str]:
    return [str(job.pk) for job in jobs]


def walk(selection: Selection, size: int = 4) -> list[list[str]]:
    """All pages, from the first to the last."""
    pages, cursor = [], ""
    while True:
        page = insights.page(selection, cursor=cursor, size=size)
        pages.append(ids_of(page.jobs))
        cursor = page.older
        if not cursor:
            return pages


def walk_back(selection: Selection, size: int = 4) -> list[list[str]]:
    """All pages by their links to the page before, from the last one."""
    page = insights.page(selection, size=size)
    while page.older:
        page = insights.page(selection, cursor=page.older, size=size)
    pages = [ids_of(page.jobs)]
    while page.newer:
        page = insights.page(selection, cursor=page.newer, size=size)
        pages.append(ids_of(page.jobs))
    return pages


@pytest.fixture
def many(db: None) -> dict[str, list[str]]:
    """Nine jobs of each state, all of one moment, in two queues; ids by state."""
    now = timezone.now()
    jobs = [
        Job(
            id=f"{0x01900000 + 9 * place + number:08x}-0000-7000-8000-000000000000",
            queue="mail" if number % 2 else "bulk",
            task=f"shop.task{number % 3}",
            state=state,
            failure_kind="raised" if state in {"retryable", "discarded"} else None,
            error_fingerprint=b"e" * 32 if state in {"retryable", "discarded"} else None,
            last_error="KeyError: order" if state in {"retryable", "discarded"} else None,
            finished_at=now if state in {"completed", "discarded", "cancelled"} else None,
            scheduled_at=now,
            inserted_at=now,
        )
        for place, state in enumerate(STATES)
        for number in range(9)
    ]
    Job.objects.bulk_create(jobs)
    return {state: [str(job.id) for job in jobs if job.state == state] for state in STATES}


SELECTIONS = [
    Selection(),
    *(Selection(state=state) for state in STATES),
    *(Selection(state=state, queue="mail") for state in STATES),
    Selection(queue="bulk"),
    Selection(task="shop.task1"),
    Selection(state="available", task="shop.task1"),
    Selection(failure_kind="raised"),
    Selection(fingerprint="65" * 32),
    Selection(fingerprint="65", queue="bulk"),
    Selection(text="order"),
    Selection(state="discarded", text="keyerror", queue="mail"),
]


def expected(selection: Selection) -> set[str]:
    jobs = Job.objects.all()
    for column in ("queue", "state", "task", "failure_kind"):
        if value := getattr(selection, column):
            jobs = jobs.filter(**{column: value})
    if selection.text:
        jobs = jobs.filter(last_error__icontains=selection.text)
    if selection.fingerprint:
        jobs = jobs.filter(error_fingerprint=b"e" * 32)
    return {str(pk) for pk in jobs.values_list("pk", flat=True)}


@pytest.mark.parametrize("window", [3, 10_000])
@pytest.mark.parametrize("selection", SELECTIONS)
def test_every_page_together_show_each_job_exactly_once_forwards_and_back(
    many: Any, monkeypatch: pytest.MonkeyPatch, selection: Selection, window: int
) -> None:
    monkeypatch.setattr(paging, "WINDOW", window)
    monkeypatch.setattr(paging, "VERIFIED_AT_ONCE", 4)
    forwards = [each for page in walk(selection) for each in page]
    assert len(forwards) == len(set(forwards)) and set(forwards) == expected(selection)
    assert set(forwards) == {each for page in walk_back(selection) for each in page}


def test_a_page_is_full_wherever_nothing_has_to_be_looked_for(many: Any) -> None:
    assert [len(page) for page in walk(Selection(state="discarded"), size=4)] == [4, 4, 1]
    assert [len(page) for page in walk(Selection(failure_kind="raised"), size=7)] == [7, 7, 4]


def test_jobs_that_come_meanwhile_move_nothing_on_the_pages_behind(many: Any, make_job: Any) -> None:
    first = insights.page(Selection(queue="mail"), size=2)
    second = ids_of(insights.page(Selection(queue="mail"), cursor=first.older, size=2).jobs)
    for _ in range(15):
        make_job()
    assert ids_of(insights.page(Selection(queue="mail"), cursor=first.older, size=2).jobs) == second


def test_available_jobs_stand_in_the_order_in_which_they_will_be_claimed(make_job: Any) -> None:
    now = timezone.now()
    late = make_job(scheduled_at=now + timedelta(hours=1))
    urgent = make_job(priority=-3)
    early = make_job(scheduled_at=now - timedelta(hours=1))
    page = insights.page(Selection(state="available", queue="mail"))
    assert ids_of(page.jobs) == [str(job.pk) for job in (urgent, early, late)]


def test_what_no_index_serves_is_looked_for_in_steps_and_each_says_so(make_job: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "WINDOW", 3)
    wanted = make_job(task="shop.old")
    for _ in range(4):
        make_job()
    first = insights.page(Selection(task="shop.old"))
    assert (first.jobs, first.searched) == ([], 3) and first.older
    second = insights.page(Selection(task="shop.old"), cursor=first.older)
    assert ids_of(second.jobs) == [str(wanted.pk)] and second.newer and not second.older


@pytest.mark.parametrize(
    "cursor",
    [
        "x", "after:", "after:[]", "after:[0]", 'after:[0,"x"]', "after:[9,1]", 'after:[-1,"x"]', "before:{}", "after:[[]]",
        'after:[true,"01900000-0000-7000-8000-000000000000"]', "after:" + "[" * 500, 'after:[0,"\\u0000"]', "after:null",
        "after:" + "9" * 9999, "2", "-1",
    ],
)  # fmt: skip
def test_a_cursor_that_means_nothing_is_the_first_page(make_job: Any, cursor: str) -> None:
    job = make_job()
    for selection in (Selection(), Selection(state="available")):
        assert ids_of(insights.page(selection, cursor=cursor).jobs) == [str(job.pk)]


SECRET = "Traceback (most recent call last):\nValueError: login with password=Hunter2 refused at postgres://ann:s3cret@db/shop"


@pytest.mark.parametrize("text", ["hunter2", "hunter", "h", "password=h", "password=hunter2", "s3", "ann:s3cret", "passwords"])
def test_a_search_does_not_spell_out_what_is_hidden_in_an_error(make_job: Any, text: str) -> None:
    make_job(
        state="discarded",
        task="shp.snd",
        last_error=SECRET.replace("Traceback (most recent call last):\n", "") if text == "h" else SECRET,
    )
    if text == "h":  # a letter that stands elsewhere in the text too tells nothing; one of the secret alone would
        text = "2 r"
    for state in ("", "discarded"):
        page = insights.page(Selection(text=text, state=state))
        assert (page.jobs, page.older, page.searched) == ([], "", None)


def test_the_visible_part_of_an_error_is_found_beside_a_secret(make_job: Any) -> None:
    job = make_job(state="discarded", last_error=SECRET)
    for text in ("login with", "REFUSED at", "@db/shop", "password="):
        assert ids_of(insights.page(Selection(text=text)).jobs) == [str(job.pk)]


@pytest.mark.parametrize("size", [1, 7, 500])
def test_portions_go_through_all_jobs_of_a_group_once(many: Any, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(paging, "WINDOW", 6)
    group = Group(Selection(task="shop.task1"), ("available", "retryable", "discarded"), Q(priority=0))
    found, position = [], ""
    while True:
        some = insights.portion(group, position=position, size=size)
        found += [str(job_id) for _, job_id in some.jobs]
        position = some.position
        if not position:
            break
    wanted = Job.objects.filter(task="shop.task1", state__in=("available", "retryable", "discarded"))
    assert sorted(found) == sorted(str(pk) for pk in wanted.values_list("pk", flat=True))


def test_a_group_is_counted_exactly_as_far_as_the_bounds_allow(many: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = Group(Selection(), ("available", "discarded"), Q())
    searched = Group(Selection(task="shop.task0"), ("available", "discarded"), Q())
    assert insights.number(everything) == insights.Number(18)
    assert insights.number(Group(Selection(state="completed"), ("available", "discarded"), Q())) == insights.Number(0)
    assert insights.number(searched) == insights.Number(6)
    monkeypatch.setattr(walking, "COUNTED_TO", 3)
    monkeypatch.setattr(walking, "_AT_ONCE", 2)
    counted = insights.number(searched)
    assert 3 <= counted.jobs < 6 and not counted.exact
