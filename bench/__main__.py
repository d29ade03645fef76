"""`python -m bench`: measures everything, or what --only names, and prints the result as markdown."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from importlib.metadata import version

from bench import server
from bench.rounds import TINY, Line, Sizes, markdown

# name: (title, module, function); a module is imported once Django is set up.
MEASUREMENTS = {
    "w1": ("Enqueue one by one (W1)", "enqueueing", "one_by_one"),
    "w1cpu": ("What enqueueing takes from the caller", "enqueueing", "client_cost"),
    "w1x8": ("Enqueue from several processes at once", "enqueueing", "at_once"),
    "w2": ("Enqueue in bulk (W2)", "enqueueing", "in_bulk"),
    "w3": ("Drain (W3)", "draining", "drained"),
    "w3rows": ("Drain jobs that touch the database (W3)", "rows", "rows_touched"),
    "batch": ("Drain jobs of a batch", "draining", "batched"),
    "limits": ("Drain under limits that never bind", "limits", "limited"),
    "w4": ("Start a job (W4)", "latency", "started"),
    "w5": ("What a job leaves behind (W5)", "footprint", "footprint"),
    "idle": ("An idle worker", "latency", "idle"),
    "plans": ("Claims and statistics", "plans", "claimed"),
    "pages": ("The admin's pages over many jobs", "pages", "opened"),
}


def main(arguments: list[str]) -> None:
    """Measures and prints; a measurement is shown as soon as it is there."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=MEASUREMENTS, default=list(MEASUREMENTS), metavar="NAME",
                        help=f"one or more of {', '.join(MEASUREMENTS)}")  # fmt: skip
    parser.add_argument("--rounds", type=int, help="rounds of each comparison (default: 5)")
    parser.add_argument("--page-jobs", type=int, metavar="N", help="jobs behind the admin's pages (default: 200000)")
    parser.add_argument("--tiny", action="store_true", help="see whether it runs; the figures mean nothing")
    chosen = parser.parse_args(arguments)
    sizes = TINY if chosen.tiny else Sizes()
    if chosen.rounds is not None:
        if chosen.rounds < 1:
            parser.error(f"--rounds must be 1 or more, not {chosen.rounds}.")
        sizes = replace(sizes, rounds=chosen.rounds)
    if chosen.page_jobs is not None:
        if chosen.page_jobs < 100:
            parser.error(f"--page-jobs must be 100 or more, not {chosen.page_jobs}.")
        sizes = replace(sizes, pages=chosen.page_jobs)
    with server.prepared():
        print(surroundings(), flush=True)
        for name in chosen.only:
            title, module, function = MEASUREMENTS[name]
            measure: Callable[[Sizes], list[Line]] = getattr(import_module(f"bench.{module}"), function)
            print(markdown(title, measure(sizes)), flush=True)


def surroundings() -> str:
    """What the figures were measured on."""
    settings = ", ".join(f"{name} = {setting}" for name, setting in server.SETTINGS.items())
    return (
        f"PostgreSQL {server.value('SHOW server_version')} ({settings}), Python {platform.python_version()}, "
        f"Django {version('Django')}, psycopg {version('psycopg')}, {os.cpu_count()} cores\n"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
