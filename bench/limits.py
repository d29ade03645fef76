"""Measures what limits cost that never bind: draining a queue with each of them against the same without a policy."""

from __future__ import annotations

from functools import partial

from bench import server
from bench.draining import WORKER, drain
from bench.rounds import Line, Sizes, interleaved, rates

FREE = "without a policy"
NEVER = 1_000_000
POLICIES = {
    FREE: "",
    "max_running": f"INSERT INTO stampeded_queue_policies (queue, max_running) VALUES ('bench', {NEVER})",
    "a rate": f"INSERT INTO stampeded_queue_policies (queue, rate_limit, rate_period_secs) VALUES ('bench', {NEVER}, 60)",
    "a limit of each tenant": "WITH p AS (INSERT INTO stampeded_queue_policies (queue) VALUES ('bench') RETURNING queue) "
    f"INSERT INTO stampeded_limits (queue, scope, max_running) SELECT queue, 'tenant', {NEVER} FROM p",
    "fair shares": "INSERT INTO stampeded_queue_policies (queue, fair_tenants) VALUES ('bench', true)",
}


def limited(sizes: Sizes) -> list[Line]:
    """One worker process of eight threads, under each policy."""
    reached = interleaved({name: partial(drain_under, policy, sizes.drain) for name, policy in POLICIES.items()}, sizes.rounds)
    server.execute("DELETE FROM stampeded_queue_policies")
    return rates(reached, FREE, {"max_running": "≥ 0.8"})


def drain_under(policy: str, count: int) -> float:
    """Jobs a second with this policy, written anew."""
    server.execute("DELETE FROM stampeded_queue_policies")
    if policy:
        server.execute(policy)
    return drain(WORKER, count)
