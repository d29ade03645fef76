"""Names, parameters and results of the functions, and the integers that callers may pass."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sql.client import SqlClient

INTEGERS = ["smallint", "integer", "bigint"]

# function: (parameters in order, those with a default, result columns, or the type of a value)
SIGNATURES: dict[str, tuple[list[str], set[str], list[str] | str]] = {
    "stampeded_create_queue": (["p_queue", "p_unlogged"], {"p_unlogged"}, "void"),
    "stampeded_claim": (
        ["p_queue", "p_worker_id", "p_limit", "p_now"], {"p_limit", "p_now"}, "SETOF stampeded_jobs"
    ),
    "stampeded_complete": (
        ["p_queue", "p_id", "p_worker_id", "p_attempt"], set(),
        ["was text", "now_state text", "owned boolean"],
    ),
    "stampeded_fail": (
        ["p_queue", "p_id", "p_worker_id", "p_attempt", "p_kind", "p_error", "p_retry_delay_ms",
         "p_exit_status"],
        {"p_retry_delay_ms", "p_exit_status"},
        ["was text", "now_state text", "dead_lettered boolean"],
    ),
    "stampeded_release": (
        ["p_queue", "p_id", "p_worker_id", "p_attempt"], set(),
        ["was text", "now_state text", "owned boolean"],
    ),
    "stampeded_touch": (["p_queue", "p_id", "p_worker_id", "p_attempt"], set(), "boolean"),
    "stampeded_checkpoint": (
        ["p_queue", "p_id", "p_worker_id", "p_attempt", "p_state"], set(), "integer"
    ),
    "stampeded_expire": (
        ["p_limit"], {"p_limit"}, ["out_id uuid", "out_queue text", "out_worker uuid"]
    ),
    "stampeded_reap": (
        ["p_dead_after"], {"p_dead_after"}, ["id uuid", "queue text", "worker_id uuid"]
    ),
    "stampeded_prune": (
        ["p_older_than", "p_limit", "p_failed_older_than"],
        {"p_older_than", "p_limit", "p_failed_older_than"}, "integer",
    ),
    "stampeded_prune_occurrences": (["p_older_than"], {"p_older_than"}, "integer"),
    "stampeded_fingerprint": (["p_error"], set(), "bytea"),
    "stampeded_heartbeat": (["p_worker_id"], set(), "void"),
    "stampeded_claim_due_schedules": (["p_limit"], {"p_limit"}, "SETOF stampeded_schedules"),
    "stampeded_fire_schedule": (["p_key", "p_next_run_at"], set(), "uuid"),
    "stampeded_recount_queue": (["p_queue"], set(), "void"),
    "stampeded_channel": ([], set(), "text"),
    "stampeded_schema_version": ([], set(), "integer"),
}  # fmt: skip

# The types of 0.3.1 which a caller may name in a cast.
TYPES = {
    "p_queue": "text", "p_id": "uuid", "p_worker_id": "uuid", "p_kind": "text", "p_error": "text",
    "p_state": "jsonb", "p_now": "timestamptz", "p_unlogged": "boolean", "p_key": "text",
    "p_next_run_at": "timestamptz", "p_older_than": "interval", "p_failed_older_than": "interval",
    "p_dead_after": "interval", "p_retry_delay_ms": "bigint",
}  # fmt: skip

Found = tuple[list[str], list[str], int, str]


def signature(sql: SqlClient, function: str) -> Found:
    row = sql.one(
        "SELECT coalesce(proargnames, '{}') AS names, coalesce(proargmodes::text[], '{}') AS modes,"
        " pronargdefaults AS defaults, pg_get_function_result(oid) AS result, pronargs,"
        " ARRAY(SELECT format_type(t, NULL) FROM unnest(proargtypes::oid[]) t) AS types"
        " FROM pg_proc WHERE proname = %s AND pronamespace = current_schema()::regnamespace",
        function,
    )
    return row.names[: row.pronargs], row.types, row.defaults, row.result


@pytest.mark.parametrize("function", SIGNATURES)
def test_a_function_has_the_parameters_and_result_of_the_contract(sql: SqlClient, function: str) -> None:
    parameters, defaulted, result = SIGNATURES[function]
    names, types, defaults, found = signature(sql, function)
    assert names[: len(parameters)] == parameters
    assert defaults - (len(names) - len(parameters)) == len(defaulted)
    wanted = result if isinstance(result, str) else f"TABLE({', '.join(result)})"
    assert found == wanted
    for name, type in zip(names, types, strict=True):
        if name in TYPES:
            assert type in (TYPES[name], f"{TYPES[name].replace('tz', '')} with time zone"), name


def test_every_defaults_value_is_the_contracts(sql: SqlClient) -> None:
    expected = {
        ("stampeded_claim", "p_limit"): "1",
        ("stampeded_claim", "p_now"): "NULL::timestamp with time zone",
        ("stampeded_create_queue", "p_unlogged"): "false",
        ("stampeded_fail", "p_retry_delay_ms"): "NULL::bigint",
        ("stampeded_fail", "p_exit_status"): "NULL::integer",
        ("stampeded_expire", "p_limit"): "100",
        ("stampeded_reap", "p_dead_after"): "'00:05:00'::interval",
        ("stampeded_prune", "p_older_than"): "'01:00:00'::interval",
        ("stampeded_prune", "p_limit"): "10000",
        ("stampeded_prune", "p_failed_older_than"): "'7 days'::interval",
        ("stampeded_prune_occurrences", "p_older_than"): "'30 days'::interval",
        ("stampeded_claim_due_schedules", "p_limit"): "100",
    }
    for (function, parameter), default in expected.items():
        written = sql.value(
            "SELECT pg_get_function_arguments(oid) FROM pg_proc"
            " WHERE proname = %s AND pronamespace = current_schema()::regnamespace",
            function,
        )
        (argument,) = [part for part in written.split(", ") if part.startswith(parameter + " ")]
        found = argument.split(" DEFAULT ")[1]
        assert found.split("::")[0] == default.split("::")[0], (function, parameter)


def test_every_function_of_the_contract_exists_once(sql: SqlClient) -> None:
    health = ["stampeded_vacuum_health", "stampeded_index_density", "stampeded_partition_health"]
    for function in [*SIGNATURES, *health]:
        signature(sql, function)


@pytest.mark.parametrize("type", [None, *INTEGERS, "smallint literal"])
def test_any_integer_type_is_taken_as_it_stands(sql: SqlClient, type: str | None) -> None:
    """Written into the statement, as a client that binds by itself does."""
    one = {None: "1", "smallint literal": "smallint '1'"}.get(type, f"1::{type}")

    def call(function: str, *before: object, after: str = "") -> list[Any]:
        marks = "".join("%s, " for _ in before)
        return sql.rows(f"SELECT * FROM stampeded_{function}({marks}{one}{after})", *before)  # type: ignore[arg-type]

    ids = sql.enqueue_many(5)
    worker = sql.worker
    for id in ids:
        assert [job.id for job in call("claim", "q", worker)] == [id]
    assert call("touch", "q", ids[0], worker)[0][0] is True
    assert call("checkpoint", "q", ids[0], worker, after=", '{}'")[0][0] == 1
    assert call("complete", "q", ids[0], worker)[0].owned
    assert call("release", "q", ids[1], worker)[0].owned
    assert call("fail", "q", ids[2], worker, after=", 'raised', 'boom'")
    assert call("fail", "q", ids[3], worker, after=f", 'raised', 'boom', {one}, {one}")
    assert call("expire") == [] and call("claim_due_schedules") == []
    assert call("prune", "1 hour")[0][0] == 0


def test_named_notation_works_with_the_contracts_names(sql: SqlClient) -> None:
    id = sql.enqueue()
    (job,) = sql.call("stampeded_claim", p_queue="q", p_worker_id=sql.worker, p_limit=1, p_now=None)
    lease = {"p_queue": "q", "p_id": id, "p_worker_id": sql.worker, "p_attempt": job.attempt}
    assert sql.call("stampeded_touch", **lease)[0][0] is True
    (answer,) = sql.call("stampeded_fail", **lease, p_kind="raised", p_error="x", p_retry_delay_ms=5, p_exit_status=1)
    assert answer.now_state == "retryable"


def test_the_claim_runs_in_a_prepared_statement_of_untyped_parameters(sql: SqlClient) -> None:
    sql.enqueue_many(12)
    worker = sql.worker
    sql.run("PREPARE claim_one AS SELECT id FROM stampeded_claim($1, $2, $3)")
    for _ in range(12):
        assert len(sql.rows(f"EXECUTE claim_one('q', '{worker}', 1)")) == 1  # type: ignore[arg-type]
