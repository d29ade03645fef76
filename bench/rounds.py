"""Runs the contenders of a comparison in turns, and turns what they reached into a table.

The machine's speed wanders by a factor of two between hours, so a figure means something only beside another of
the same run. Each round lets every contender run once, starting with another one each time; medians are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

Contenders = Mapping[str, Callable[[], float]]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured: jobs for each kind of measurement, and rounds of each comparison."""

    single: int = 2_000
    bulk: int = 10_000
    drain: int = 10_000
    batch: int = 10_000
    latency: int = 50
    plan: int = 100_000
    claims: int = 30
    idle_seconds: float = 20.0
    pages: int = 200_000
    processes: int = 8
    rounds: int = 5


TINY = Sizes(
    single=20, bulk=50, drain=50, batch=200, latency=3, plan=300, claims=2, idle_seconds=0.5, processes=2, rounds=1, pages=500
)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the result: what was measured, its figure with unit, and how it compares."""

    what: str
    figure: str
    ratio: str = ""
    target: str = ""


def interleaved(contenders: Contenders, rounds: int) -> dict[str, float]:
    """Lets each contender run once a round and returns the median of what each reached."""
    names = list(contenders)
    reached: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            reached[name].append(contenders[name]())
    return {name: median(figures) for name, figures in reached.items()}


def rates(reached: Mapping[str, float], against: str, targets: Mapping[str, str] | None = None) -> list[Line]:
    """Lines of rates a second, each compared with the contender named `against`."""
    return [
        Line(
            what=name,
            figure=f"{rate:,.0f} /s",
            ratio="1" if name == against else f"{rate / reached[against]:.2f}",
            target=(targets or {}).get(name, ""),
        )
        for name, rate in reached.items()
    ]


def markdown(title: str, lines: Sequence[Line]) -> str:
    """A heading and a table."""
    rows = [f"| {line.what} | {line.figure} | {line.ratio} | {line.target} |" for line in lines]
    return "\n".join([f"### {title}", "", "| what | figure | ratio | target |", "| --- | --- | --- | --- |", *rows, ""])
