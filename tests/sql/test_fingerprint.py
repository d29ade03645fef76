"""stampeded_fingerprint: errors that differ only in numbers and ids are one cluster."""

from __future__ import annotations

from hashlib import sha256

import pytest

from tests.sql.client import SqlClient

UUID = "550e8400-e29b-41d4-a716-446655440000"
NORMAL = [
    ("", ""),
    ("Boom", "boom"),
    ("BOOM: 日本 é", "boom: 日本 é"),
    (f"no row {UUID}", "no row U"),
    (f"no row {UUID.upper()}", "no row U"),
    (f"{UUID},{UUID}", "U,U"),
    ("at 0xDEADbeef", "at X"),
    ("at 0x1", "at X"),
    ("digest 0123456789abcdef", "digest X"),
    ("digest " + "ABCDEF0123456789" * 4, "digest X"),
    ("digest 0123456789abcde", "digest Nabcde"),
    ("after 30 s", "after N s"),
    ("after 1.5 s", "after N.N s"),
    ("-7", "-N"),
    ("row12col3", "rowNcolN"),
    ("line 3, in f\n  line 44", "line N, in f\n  line N"),
    ("Timeout 12 for " + UUID + " at 0xff, sha deadbeefdeadbeef", "timeout N for U at X, sha X"),
]


@pytest.mark.parametrize(("error", "normal"), NORMAL, ids=[repr(n[0])[:30] for n in NORMAL])
def test_the_fingerprint_is_the_sha256_of_the_text_without_its_particulars(sql: SqlClient, error: str, normal: str) -> None:
    found = sql.call("stampeded_fingerprint", error)[0][0]
    assert bytes(found) == sha256(normal.encode()).digest()


def test_different_errors_have_different_fingerprints(sql: SqlClient) -> None:
    texts = ["a", "b", "a b", "n", "1", "u", "x"]
    found = {bytes(sql.call("stampeded_fingerprint", text)[0][0]) for text in texts}
    assert len(found) == len(texts)


def test_no_error_has_no_fingerprint(sql: SqlClient) -> None:
    assert sql.call("stampeded_fingerprint", None)[0][0] is None
