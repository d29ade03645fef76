"""Which names of time zones are taken, and what is said about the others."""

from __future__ import annotations

import pytest

from django_stampeded.exceptions import InvalidSchedule
from django_stampeded.zones import names, zone


@pytest.mark.parametrize("name", ["UTC", "Europe/Paris", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "EST"])
def test_a_name_of_the_iana_list_is_taken(name: str) -> None:
    assert zone(name).key == name


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("UTC+3", "'Etc/GMT-3'"), ("GMT-5", "'Etc/GMT+5'"), ("gmt+0530", "'Asia/Kolkata'"), ("+05:30", "'Asia/Kolkata'"),
        ("UTC+3:20", "name a place"), ("+99", "name a place"), ("europe/paris", "'Europe/Paris'"),
        ("Americas/Vancouver", "'America/Vancouver'"), ("local", "name a place"), ("", "name a place"),
        ("PST", "name a place"), ("NOPE+3", "name a place"), ("<x>3", "name a place"), ("localtime", "name a place"),
        ("Factory", "name a place"), ("posixrules", "name a place"), (" UTC", "'UTC'"),
        ("../../etc/passwd", "name a place"), ("/etc/localtime", "name a place"), ("x\x00y", "name a place"),
        ("\ud800", "name a place"), (None, "name a place"), (3, "name a place"),
    ],
)  # fmt: skip
def test_another_name_is_refused_with_what_to_write_instead(name: object, advice: str) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        zone(name)
    assert advice in str(caught.value) and str(caught.value).isascii()


def test_a_very_long_name_is_not_repeated_in_full() -> None:
    with pytest.raises(InvalidSchedule) as caught:
        zone("x" * 100_000)
    assert len(str(caught.value)) < 300


def test_what_differs_from_machine_to_machine_is_no_name() -> None:
    assert not {"localtime", "Factory", "posixrules"} & names()
    assert len(names()) > 400
