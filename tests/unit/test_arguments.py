"""Binding named arguments to a task's function, at enqueue and in the worker."""

import functools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_stampeded.arguments import Signature, encode, from_text
from django_stampeded.exceptions import InvalidArguments, InvalidOption

if TYPE_CHECKING:
    from nowhere import Context


def signature(func, takes_context=False):
    return Signature("shop.f", func, takes_context=takes_context)


def resize(path: str, width: int = 100, *, quality: float = 0.8) -> None: ...


@pytest.mark.parametrize("args", [{"path": "a"}, {"path": "a", "width": 1, "quality": 1}])
def test_named_arguments_that_the_function_takes_are_accepted(args):
    signature(resize).check(args)


@pytest.mark.parametrize(
    ("args", "message", "argument"),
    [
        ({}, "Task 'shop.f' is missing 'path': pass it by name.", "path"),
        ({"width": 1}, "Task 'shop.f' is missing 'path': pass it by name.", "path"),
        ({"path": "a", "widht": 1}, "Task 'shop.f' has no parameter 'widht': did you mean 'width'?", "widht"),
        (
            {"path": "a", "zzz": 1},
            "Task 'shop.f' has no parameter 'zzz': it takes 'path', 'width', 'quality'.",
            "zzz",
        ),
        ({"path": "a", 1: 1}, "Task 'shop.f' has no parameter '1': it takes 'path', 'width', 'quality'.", "1"),
    ],
)
def test_missing_and_unknown_names_are_refused_by_name(args, message, argument):
    for refuse in (signature(resize).check, signature(resize).decode):
        with pytest.raises(InvalidArguments) as caught:
            refuse(args)
        assert str(caught.value) == message
        assert caught.value.argument == argument


def test_a_function_without_parameters_says_so():
    with pytest.raises(InvalidArguments, match="has no parameter 'x': it takes none."):
        signature(lambda: None).check({"x": 1})


def test_a_function_may_take_any_name():
    def report(self, name, using, queue_name, task, **others: int): ...

    args = {"self": 1, "name": 2, "using": 3, "queue_name": 4, "task": 5, "class": 6, "args": 7}
    signature(report).check(args)
    assert signature(report).decode(args) == args


def test_what_collects_the_rest_decodes_it_by_its_annotation():
    def report(**others: int): ...

    with pytest.raises(InvalidArguments, match=r"Task 'shop.f': args.pages must be a whole number, not text\."):
        signature(report).decode({"pages": "3"})


def test_the_context_is_no_argument():
    def work(context: "Context", path: str): ...

    bound = signature(work, takes_context=True)
    bound.check({"path": "a"})
    assert bound.decode({"path": "a"}) == {"path": "a"}
    with pytest.raises(InvalidArguments, match="no parameter 'context'"):
        bound.check({"path": "a", "context": 1})


@pytest.mark.parametrize("func", [lambda: None, lambda *, context: None])
def test_a_task_that_takes_context_needs_a_parameter_for_it(func):
    with pytest.raises(InvalidOption, match="has takes_context: give its function a first parameter for it"):
        signature(func, takes_context=True)


def test_positional_only_parameters_are_refused():
    def work(path, /): ...

    with pytest.raises(InvalidOption, match="positional-only parameter 'path': remove the /"):
        signature(work)

    def context_only(context, /, path): ...

    signature(context_only, takes_context=True).check({"path": "a"})


def test_a_decorated_function_keeps_its_own_parameters():
    def noisy(func):
        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            return func(*args, **kwargs)

        return wrapper

    bound = signature(noisy(resize))
    assert bound.names == {"path", "width", "quality"}
    with pytest.raises(InvalidArguments, match=r"args.width must be a whole number"):
        bound.decode({"path": "a", "width": "x"})


def test_arguments_without_annotation_are_passed_as_they_are():
    def work(a, b=1): ...

    assert signature(work).decode({"a": [1], "b": {"c": None}}) == {"a": [1], "b": {"c": None}}


def test_none_is_fine_where_it_is_the_default():
    def work(width: int = None, *, limit: "int" = None): ...

    assert signature(work).decode({"width": None, "limit": None}) == {"width": None, "limit": None}


def test_an_argument_that_does_not_fit_is_named_with_its_path_and_the_reason():
    def work(rows: list[dict[str, int]]): ...

    with pytest.raises(InvalidArguments) as caught:
        signature(work).decode({"rows": [{}, {"n": "x"}]})
    assert str(caught.value) == "Task 'shop.f': args.rows[1].n must be a whole number, not text."
    assert caught.value.argument == "args.rows[1].n"


def test_annotations_that_do_not_resolve_are_explained():
    def work(path: "NotImported"): ...  # noqa: F821

    with pytest.raises(InvalidArguments, match="Task 'shop.f' has annotations that do not resolve .*NotImported"):
        signature(work).decode({"path": "a"})


def test_annotations_that_no_json_fits_are_explained():
    def work(path: 3): ...

    with pytest.raises(InvalidArguments, match="Task 'shop.f': parameter 'path' has an annotation that no JSON"):
        signature(work).decode({"path": "a"})


def test_the_annotation_of_the_result_is_not_needed():
    def work(n: int) -> "NotImported": ...  # noqa: F821

    assert signature(work).decode({"n": 1}) == {"n": 1}


def test_arguments_from_elsewhere_that_python_cannot_read_are_refused():
    assert from_text('{"path": "a"}') == {"path": "a"}
    with pytest.raises(InvalidArguments, match="args is nested too deep for Python's JSON reader."):
        from_text('{"a":' + "[" * 100_000 + "]" * 100_000 + "}")


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=10,
)


@given(st.dictionaries(texts, plain, max_size=4))
def test_whatever_json_can_hold_comes_back_equal(args: dict[str, Any]):
    assert from_text(encode(args)) == args
