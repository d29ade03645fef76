"""The measurements run; what they find is nobody's test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import MEASUREMENTS
from bench.rounds import Line, interleaved, markdown, rates

ROOT = Path(__file__).parent.parent.parent


def test_every_round_lets_each_contender_run_once_and_starts_with_another():
    order: list[str] = []
    contenders = {name: lambda name=name: float(order.append(name) or len(order)) for name in "abc"}
    reached = interleaved(contenders, 3)
    assert order == list("abcbcacab")
    assert reached == {"a": 6.0, "b": 4.0, "c": 5.0}


def test_a_rate_stands_beside_what_it_is_compared_with():
    assert rates({"bare": 2_000.0, "ours": 1_700.0}, "bare", {"ours": "≥ 0.8"}) == [
        Line("bare", "2,000 /s", "1"),
        Line("ours", "1,700 /s", "0.85", "≥ 0.8"),
    ]


def test_the_result_is_a_markdown_table():
    assert markdown("Drain", [Line("ours", "9 /s", "1", "≥ 1")]).splitlines() == [
        "### Drain",
        "",
        "| what | figure | ratio | target |",
        "| --- | --- | --- | --- |",
        "| ours | 9 /s | 1 | ≥ 1 |",
    ]


@pytest.mark.slow
def test_every_measurement_runs_through_with_a_handful_of_jobs():
    environment = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--tiny"], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr
    for title, _, _ in MEASUREMENTS.values():
        assert f"### {title}\n" in done.stdout
