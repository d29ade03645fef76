"""An interrupt reaches the job it was meant for, or nothing."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

from django_stampeded.worker.interrupt import Guard, Timekeeper
from django_stampeded.worker.outcomes import JobTimeout
from tests.worker.support import eventually


def spin(seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.001)


def test_a_running_job_is_interrupted():
    guard, lease, seen = Guard(), object(), []

    def body():
        guard.open(lease, None)
        try:
            spin()
        except JobTimeout:
            seen.append("interrupted")
        finally:
            guard.close()

    thread = threading.Thread(target=body)
    thread.start()
    eventually(lambda: guard.interrupt(lease, JobTimeout))
    thread.join(20)
    assert seen == ["interrupted"]


def test_a_job_is_interrupted_once_only():
    guard, lease = Guard(), object()
    guard.open(lease, None)
    thread = threading.Thread(target=lambda: guard.interrupt(lease, JobTimeout))
    try:
        thread.start()
        thread.join()
        spin(10)
        raise AssertionError("nothing was raised")
    except JobTimeout:
        assert not guard.interrupt(lease, JobTimeout)
    finally:
        guard.close()


def test_a_job_that_is_over_is_not_interrupted():
    guard, lease = Guard(), object()
    guard.open(lease, None)
    guard.close()
    assert not guard.interrupt(lease, JobTimeout)


def test_an_interrupt_meant_for_one_job_never_reaches_the_next():
    """Thousands of jobs that end at the moment at which they are interrupted."""
    guard, struck, current = Guard(), [], [None]
    done = threading.Event()

    def attack():
        while not done.is_set():
            lease = current[0]
            if lease is not None:
                guard.interrupt(lease, JobTimeout)

    attacker = threading.Thread(target=attack)
    attacker.start()
    try:
        for n in range(3000):
            lease = SimpleNamespace(n=n)
            try:
                current[0] = lease
                guard.open(lease, None)
                try:
                    sum(range(20))
                finally:
                    guard.close()
            except JobTimeout:
                struck.append(n)
            current[0] = None
            sum(range(200))  # outside of any job: whatever strikes here fails the test
    finally:
        done.set()
        attacker.join()
    assert len(struck) <= 3000


def test_the_timekeeper_interrupts_what_is_past_its_deadline_and_nothing_else():
    killed = []
    guards = {name: Guard() for name in ("late", "soon", "endless", "free")}
    keeper = Timekeeper(SimpleNamespace(crew=[SimpleNamespace(guard=guard) for guard in guards.values()]))
    for name, timeout in (("late", 10.0), ("soon", 20.0), ("endless", None)):
        guards[name].open(SimpleNamespace(name=name), timeout, kill=lambda name=name: killed.append(name))
    now = time.monotonic()
    assert keeper.run_once(now + 15.0) == 1
    assert killed == ["late"]
    assert guards["soon"].deadline is not None
    assert not guards["soon"].sent


def test_the_timekeeper_is_started_by_the_first_deadline_only():
    keeper = Timekeeper(SimpleNamespace(crew=[]))
    assert not keeper.is_alive()
    keeper.expect(time.monotonic() + 600)
    assert keeper.is_alive()
    keeper.stop()
    keeper.join(10)
    assert not keeper.is_alive()
