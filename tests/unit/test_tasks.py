"""The @task decorator and the Task it makes, without a database."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest

from django_stampeded import registry
from django_stampeded.declaring import task
from django_stampeded.exceptions import DuplicateTask, InvalidArguments, InvalidOption, UnknownTask
from django_stampeded.results import EnqueuedJob
from django_stampeded.tasks import Task, task_by_name


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    monkeypatch.setattr(registry, "_tasks", {})
    monkeypatch.setattr(registry, "_names", {})


def add(a: int, b: int = 1) -> int:
    """Adds."""
    return a + b


def test_the_decorator_works_with_and_without_parentheses():
    for made in (task(add), task()(add), task(priority=5)(add)):
        assert isinstance(made, Task)
        assert made.name == f"{__name__}.add"
        assert made.func is add
        assert made.__doc__ == "Adds."


def test_calling_a_task_calls_its_function():
    assert task(add)(2, b=3) == 5

    @task
    async def later(n: int) -> int:
        return n

    assert asyncio.run(later(n=4)) == 4


def test_options_are_those_of_the_decorator_or_the_defaults():
    made = task(queue_name="mail", timeout=timedelta(minutes=1), max_attempts=3)(add)
    assert (made.queue_name, made.timeout, made.max_attempts) == ("mail", 60.0, 3)
    assert (made.priority, made.expire_seconds, made.backoff_base, made.backoff_max) == (0, 3600, 1.0, 3600.0)


def test_using_returns_a_changed_copy_and_leaves_the_task_alone():
    made = task(queue_name="mail")(add)
    copy = made.using(priority=-3, using="replica").using(tenant="acme")
    assert (copy.queue_name, copy.priority, copy.tenant, copy.database) == ("mail", -3, "acme", "replica")
    assert (made.priority, made.tenant, made.database) == (0, None, None)
    assert copy.func is add and copy.name == made.name
    assert registry.find(made.name) is made


def test_a_task_cannot_be_changed_in_place():
    with pytest.raises(AttributeError):
        task(add).priority = 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"priority": 40_000}, "priority must be from -32768 to 32767, not 40000."),
        ({"prioritty": 1}, "A task has no option 'prioritty': did you mean 'priority'?"),
        ({"name": ""}, "name must have 1 to 255 characters, not 0."),
        ({"unique": ["c"]}, "unique names 'c', but task 'tests.unit.test_tasks.add' has no such parameter."),
        (
            {"unique": "args", "dedup": "x"},
            "Task 'tests.unit.test_tasks.add' has both dedup and unique: give only one of them.",
        ),
    ],
)
def test_a_wrong_option_is_refused_where_it_is_given(options, message):
    with pytest.raises(InvalidOption) as caught:
        task(**options)(add)
    assert str(caught.value) == message
    assert list(registry.every()) == []


def test_using_refuses_what_only_the_decorator_can_set_and_what_does_not_exist():
    for options in ({"prioritty": 1}, {"name": "other"}, {"takes_context": True}, {"aliases": ["x"]}, {"timeout": 5}):
        with pytest.raises(InvalidOption):
            task(add).using(**options)


def test_what_can_not_be_a_task_is_refused():
    def yields():
        yield 1

    async def async_yields():
        yield 1

    class Callable:
        def __call__(self): ...

    for func, message in [
        (yields, "yields, so calling it runs nothing"),
        (async_yields, "yields, so calling it runs nothing"),
        (3, "@task goes above a function, not above int."),
        (task(add), "@task goes above a function, not above Task."),
        (Callable(), "A Callable has no name of its own: give it one with @task\\(name=...\\)."),
    ]:
        with pytest.raises(InvalidOption, match=message):
            task(func)
    assert task(name="callable")(Callable()).name == "callable"


def test_two_functions_cannot_have_one_name():
    def other(): ...

    task(name="shop.add")(add)
    with pytest.raises(DuplicateTask, match="Two tasks are called 'shop.add', .*add and .*other: give one"):
        task(name="shop.add")(other)
    with pytest.raises(DuplicateTask, match="Two tasks are called 'shop.add'"):
        task(name="shop.other", aliases=["shop.add"])(other)
    assert [each.name for each in registry.every()] == ["shop.add"]


def test_a_function_that_is_imported_again_replaces_its_task():
    first, second = task(add), task(priority=1)(add)
    assert registry.find(first.name) is second


def test_a_task_is_found_by_its_name_and_by_its_aliases():
    made = task(name="shop.add", aliases=["shop.plus", "shop.sum"])(add)
    for name in ("shop.add", "shop.plus", "shop.sum"):
        assert registry.find(name) is registry.get(name) is task_by_name(name) is made


def test_an_unknown_task_is_explained():
    task(name="shop.add")(add)
    assert registry.get("shop.ad") is None
    with pytest.raises(UnknownTask, match="No task 'shop.ad' is registered in this process: did you mean 'shop.add'"):
        registry.find("shop.ad")
    with pytest.raises(UnknownTask, match="deploy its code here, or give its new name an alias"):
        registry.find("zzz")


def test_a_name_that_is_not_registered_makes_a_task_without_function():
    made = task_by_name("invoice.parse").using(queue_name="rust")
    assert (made.name, made.func, made.signature, made.queue_name) == ("invoice.parse", None, None, "rust")
    with pytest.raises(UnknownTask, match="Task 'invoice.parse' has no function in this process"):
        made()


@pytest.mark.parametrize("name", ["", "x" * 256, "a\x00", None, 3])
def test_a_name_that_no_job_can_have_is_refused(name):
    with pytest.raises(InvalidOption, match="^name must"):
        task_by_name(name)


def test_positional_arguments_are_refused():
    made = task(add)
    with pytest.raises(InvalidArguments, match="Task '.*add' was given positional arguments: pass them by name."):
        made.enqueue(1)
    with pytest.raises(InvalidArguments, match="positional"):
        asyncio.run(made.aenqueue(1))


def test_a_period_without_scope_and_a_dead_letter_to_itself_are_refused_when_enqueued():
    made = task(queue_name="mail", unique_for="day")(add)
    with pytest.raises(InvalidOption, match="has unique_for without a scope: give it dedup or unique too."):
        made.enqueue(a=1)
    with pytest.raises(InvalidOption, match="dead_letter_queue of task '.*add' is its own queue: name another one."):
        task(add).using(queue_name="mail", dead_letter_queue="mail").enqueue(a=1)


def test_replacing_takes_a_scope_and_no_jobs_to_wait_for():
    made = task(on_conflict="replace")(add)
    with pytest.raises(InvalidOption, match="has on_conflict without a scope: give it dedup or unique too."):
        made.enqueue(a=1)
    parent = EnqueuedJob(UUID(int=1), "default", "x", True)
    with pytest.raises(InvalidOption, match="what a job waits for can't be replaced, so use on_conflict='keep'"):
        made.using(dedup="x", depends_on=[parent]).enqueue(a=1)


@pytest.mark.parametrize("option", ["retry_on", "discard_on", "backoff"])
def test_the_retry_policy_belongs_to_the_function(option):
    with pytest.raises(InvalidOption, match=f"{option} belongs to the function: set it with @task"):
        task(add).using(**{option: OSError})


def test_a_period_can_be_set_before_the_scope():
    assert task(unique_for="day")(add).using(dedup="x").unique_for == "day"


def test_a_context_that_the_function_has_no_parameter_for_is_refused():
    with pytest.raises(InvalidOption, match="give its function a first parameter for it"):
        task(takes_context=True)(lambda: None)
