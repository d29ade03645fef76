"""A job's ring of errors made readable: where each attempt ran, for how long, and its whole text."""

import pytest

from django_stampeded.insights.errors import read_ring
from django_stampeded.insights.redaction import Redactor


def read(**entry):
    return read_ring([entry], Redactor([]))[0]


def test_an_attempt_has_its_worker_node_and_duration():
    entry = read(kind="raised", message="boom", worker="0198", node="web-1", duration_s=1.25)
    assert (entry.worker, entry.node, entry.duration_s, entry.text) == ("0198", "web-1", 1.25, "boom")


def test_an_entry_without_them_says_nothing_of_them():
    entry = read(kind="cancelled", message="no longer wanted", node=None)
    assert (entry.worker, entry.node, entry.duration_s) == ("", "", None)


@pytest.mark.parametrize("trace", ["  File a\n  File b", None, 5, ""])
def test_a_message_that_was_cut_short_is_completed_by_its_trace(trace):
    entry = read(message="ValueError: no\n  File a\n  Fi", trace=trace)
    whole = isinstance(trace, str) and trace
    assert entry.text == (f"ValueError: no\n{trace}" if whole else "ValueError: no\n  File a\n  Fi")
    assert entry.summary == "ValueError: no"
