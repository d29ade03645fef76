"""Any exception has a text that PostgreSQL stores: bounded, readable, without NUL and lone surrogates."""

import pytest

from django_stampeded.worker.failure_text import LONGEST, clean, describe, headline


def caught(exc):
    try:
        raise exc
    except BaseException as found:
        return found


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text for you")


class Huge(Exception):
    def __str__(self):
        return "x" * 50_000_000


def storable(text):
    text.encode("utf-8")
    return "\x00" not in text and len(text) <= LONGEST


@pytest.mark.parametrize(
    "exc",
    [
        ValueError("a\x00b"),
        ValueError("\udcff"),
        Unprintable(),
        Huge(),
        ValueError(b"\x00\xff" * 1000),
        ValueError(),
        SystemExit(),
        ExceptionGroup("several", [ValueError("\x00"), Unprintable()]),
    ],
    ids=["nul", "surrogate", "unprintable", "huge", "bytes", "empty", "exit", "group"],
)
def test_every_exception_has_a_storable_text(exc):
    text = describe(caught(exc))
    assert storable(text)
    assert storable(headline(exc))


def test_the_first_line_is_the_exception_itself():
    assert describe(caught(ValueError("no such file"))).splitlines()[0] == "ValueError: no such file"
    assert describe(caught(ValueError())).splitlines()[0] == "ValueError"


def test_an_exception_from_a_module_carries_its_path():
    assert headline(Unprintable()).startswith(f"{__name__}.Unprintable: <not printable: RuntimeError>")


def test_the_traceback_names_file_line_and_function():
    text = describe(caught(ValueError("here")))
    assert f'File "{__file__}"' in text
    assert "in caught" in text
    assert "raise exc" in text


def test_the_chain_is_kept_with_what_caused_what():
    def fail():
        try:
            raise KeyError("inner")
        except KeyError as exc:
            raise ValueError("outer") from exc

    with pytest.raises(ValueError, match="outer") as found:
        fail()
    assert "caused by: KeyError: 'inner'" in describe(found.value)


def test_a_context_is_kept_unless_suppressed():
    def fail(suppressed):
        try:
            raise KeyError("inner")
        except KeyError:
            if suppressed:
                raise ValueError("outer") from None
            raise ValueError("outer")  # noqa: B904

    with pytest.raises(ValueError, match="outer") as found:
        fail(suppressed=False)
    assert "while handling: KeyError" in describe(found.value)
    with pytest.raises(ValueError, match="outer") as found:
        fail(suppressed=True)
    assert "KeyError" not in describe(found.value).splitlines()[0] + describe(found.value).split("File")[0]


def test_a_chain_that_goes_in_a_circle_ends():
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert describe(one).count("ValueError: one") == 1


def test_a_deep_recursion_keeps_its_outermost_and_innermost_frames():
    def down():
        down()

    with pytest.raises(RecursionError) as found:
        down()
    text = describe(found.value)
    assert "frames left out" in text
    assert text.count("in down") == 9


def test_the_same_error_has_the_same_text_but_for_numbers_and_ids():
    def fail(n):
        raise ValueError(f"row {n} is bad")

    texts = []
    for n in (1, 2):
        with pytest.raises(ValueError, match="bad") as found:
            fail(n)
        texts.append(describe(found.value))
    assert texts[0].replace("row 1", "row 2") == texts[1]


def test_clean_keeps_ordinary_text_of_any_language():
    assert clean("日本 👍 ü") == "日本 👍 ü"


def test_notes_are_kept_and_what_is_no_text_among_them_left_out():
    exc = ValueError("row 4")
    exc.add_note("while importing a.csv")
    exc.__notes__.append(b"bytes")
    lines = describe(caught(exc)).splitlines()
    assert lines[:2] == ["ValueError: row 4", "  note: while importing a.csv"]
    exc.__notes__ = "no list"
    assert storable(describe(exc))


def test_each_exception_of_a_group_is_kept_with_its_place_and_its_notes_groups_within_it_too():
    inner = caught(KeyError("inner"))
    inner.add_note("the second file")
    text = describe(caught(ExceptionGroup("outer", [ValueError("plain"), ExceptionGroup("nested", [inner])])))
    assert "  - ValueError: plain" in text and "    - KeyError: 'inner'" in text
    assert "note: the second file" in text
    after = text[text.index("KeyError: 'inner'") :]
    assert "in caught" in after and "raise exc" in after


def test_of_a_large_group_the_first_are_kept_and_the_others_counted():
    text = describe(caught(ExceptionGroup("many", [ValueError(n) for n in range(50)])))
    assert storable(text)
    assert "- ValueError: 4" in text and "- ValueError: 5" not in text and "(45 more left out)" in text


def test_a_group_within_a_group_without_end_is_cut():
    exc = caught(ValueError("innermost"))
    for _ in range(300):
        exc = ExceptionGroup("level", [exc])
    assert storable(describe(caught(exc)))
