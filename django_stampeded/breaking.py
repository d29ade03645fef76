"""Circuit breakers, as far as a process decides for itself: whose breaker a job's outcome concerns, by which rule, what of it
is worth reporting, and how long a refused job waits.

Pure. What opens and closes a breaker is decided in SQL (step_breaker), for all processes and languages together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import timedelta
from typing import Any, NamedTuple

from django_stampeded.backoff import full_jitter

MOST_TALLIED = 10_000
"""Breakers whose successes a process keeps count of; beyond them it starts afresh."""


class Key(NamedTuple):
    """Whose breaker: kind is `destination` or `task`."""

    kind: str
    key: str


@dataclass(frozen=True, slots=True)
class Rule:
    """When a breaker opens, and how it comes to be closed again.

    Args:
        failures: it opens at so many failures, 1 to 1000000,
        period: within so many seconds, 0.1 to 86400,
        share: if they are at least that share of all outcomes, 0 to 1.
        wait: seconds until the first probes start, 0.1 to 86400; twice as many with each failed probe,
        longest_wait: up to so many seconds, 0.1 to 86400.
        probes: so many jobs of all workers may start at a time then, 1 to 1000.
        successes: so many probes in a row must succeed to close it, 1 to 1000.

    Example: `Rule(failures=5).period == 60.0`
    """

    failures: int = 10
    period: float = 60.0
    share: float = 0.5
    wait: float = 30.0
    longest_wait: float = 600.0
    probes: int = 1
    successes: int = 2

    @property
    def document(self) -> dict[str, Any]:
        """The rule as the SQL functions take it."""
        return asdict(self)


_NAMES = tuple(each.name for each in fields(Rule))
_RANGES: dict[str, tuple[float, float]] = {
    "failures": (1, 1_000_000), "period": (0.1, 86_400), "share": (0, 1), "wait": (0.1, 86_400), "longest_wait": (0.1, 86_400),
    "probes": (1, 1000), "successes": (1, 1000),
}  # fmt: skip


def checked_rule(value: Any) -> dict[str, Any] | bool:
    """The value of an option or setting: True, False, or what of a Rule is to differ.

    Raises ValueError, with the rest of a sentence, for anything else.

    Example: `checked_rule({"wait": timedelta(minutes=1)}) == {"wait": 60.0}`
    """
    if isinstance(value, bool):
        return value
    if not isinstance(value, Mapping):
        raise ValueError(f"must be True, False or a dict, not {type(value).__name__}")
    if unknown := [str(name) for name in value if name not in _NAMES]:
        raise ValueError(f"has no entry {', '.join(unknown)}: use {', '.join(_NAMES)}")
    return {name: _checked_entry(name, entry) for name, entry in value.items()}


def _checked_entry(name: str, value: Any) -> float | int:
    whole = name in ("failures", "probes", "successes")
    if isinstance(value, timedelta) and not whole and name != "share":
        value = value.total_seconds()
    low, high = _RANGES[name]
    fits = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not fits or not low <= value <= high:
        raise ValueError(f"must have {name} as {'a whole number' if whole else 'a number'} from {low:g} to {high:.10g}")
    return int(value) if whole else float(value)


def rule_of(option: Mapping[str, Any] | bool, base: Rule) -> Rule | None:
    """The rule that an option or setting means, None where it turns breakers off."""
    if isinstance(option, bool):
        return base if option else None
    return replace(base, **option)


def of_job(
    destination: str | None, task: str, option: Mapping[str, Any] | bool | None, setting: Mapping[str, Any] | bool
) -> tuple[Key, Rule] | None:
    """Whose breaker a job concerns, and its rule; None where none does.

    A destination has one unless the setting or the task's option says no, a task only where its option asks for one.
    """
    if option is False or (option is None and (destination is None or setting is False)):
        return None
    base = Rule() if isinstance(setting, bool) else replace(Rule(), **setting)
    rule = rule_of(True if option is None else option, base)
    if rule is None:
        return None
    return (Key("destination", destination) if destination else Key("task", task)), rule


class Tally:
    """Successes that a process has not reported, for each breaker, since its last failure there.

    A breaker that counted failures alone would open on the one in a hundred of a busy destination; one that had each
    success written down would cost an UPDATE for each.
    """

    def __init__(self) -> None:
        self._unreported: dict[Key, tuple[int, float]] = {}

    def take(self, key: Key, rule: Rule, failures: int, successes: int, now: float) -> int:
        """Note what a batch brought; returns the successes of before that go with its failures, 0 where it has none.

        `now`: monotonic seconds. What was begun to be counted longer than the rule's period ago is forgotten.
        """
        earlier, since = self._unreported.pop(key, (0, now))
        if now - since >= rule.period:
            earlier, since = 0, now
        if failures:
            return earlier
        if len(self._unreported) >= MOST_TALLIED:
            self._unreported.clear()
        self._unreported[key] = (earlier + successes, since)
        return 0


def refusal_delay(rule: Rule, retry_in: float | None, deferrals: int) -> float:
    """Seconds that a refused job waits: until probes may start, and as much longer as spreads the jobs refused together.

    The spread grows with the refusals, so that a long outage costs each job few of them. `retry_in` is None for a breaker
    that waits for somebody to reset it.
    """
    wait = rule.longest_wait if retry_in is None else max(retry_in, 0.0)
    return wait + full_jitter(rule.wait, rule.longest_wait, deferrals + 1)
