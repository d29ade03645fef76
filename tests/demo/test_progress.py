"""How the demo's progress looks on a terminal and elsewhere."""

from __future__ import annotations

from io import StringIO

from example_project.imports.demo.progress import Progress, bar


def test_the_bar_is_full_only_when_all_is_done():
    assert bar(0, 10, 4) == "░░░░"
    assert bar(9, 10, 4) == "███░"
    assert bar(10, 10, 4) == "████"
    assert bar(11, 10, 4) == "████"
    assert bar(3, None, 4) == "░░░░"


def test_a_terminal_sees_one_line_redrawn():
    screen = StringIO()
    progress = Progress(screen, terminal=True)
    progress.update(1, 2, "0 to be retried")
    progress.update(2, 2, "0 to be retried")
    progress.finish()
    assert screen.getvalue().count("\r") == 2
    assert screen.getvalue().count("\n") == 1
    assert "2 of 2 jobs  0 to be retried" in screen.getvalue()


def test_a_log_file_gets_a_line_for_each_tenth_and_no_control_characters():
    log = StringIO()
    progress = Progress(log, terminal=False)
    for done in range(101):
        progress.update(done, 100)
    progress.finish()
    assert log.getvalue().splitlines() == [f"{done} of 100 jobs" for done in range(0, 101, 10)]
