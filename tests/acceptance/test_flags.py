"""A wrong flag or a database that won't do is one sentence on stderr, and nothing is done."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command

from tests.acceptance.project import Project


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--no-worker", "--no-maintenance"], "leave nothing to do"),
        (["--no-worker", "--drain"], "--no-worker runs none"),
        (["--threads=0"], "--threads '0' must be a whole number from 1 to 1000"),
        (["--threads=many"], "--threads 'many' must be a whole number"),
        (["--poll-interval=-1"], "--poll-interval '-1' must be"),
        (["--grace-period=soon"], "--grace-period 'soon' must be a number of seconds"),
        (["--database=other"], "--database 'other' is not in DATABASES"),
        (["--queue", "mail:0"], "bound of 1 or more"),
        (["--queue", "a,,b"], "empty name"),
        (["--queue", "a", "--except-queues", "a"], "leaves none"),
    ],
)
def test_a_wrong_flag_is_refused_in_one_sentence(flags, said):
    with pytest.raises(CommandError) as refusal:
        call_command("runstampeded", *flags)
    assert said in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 1


def test_a_wrong_flag_ends_the_process_with_status_1_and_no_traceback(project):
    process = project.manage("runstampeded", "--threads=0")
    assert process.wait() == 1
    assert "Traceback" not in process.output
    assert len(process.output.strip().splitlines()) == 1


@pytest.mark.slow
def test_a_database_without_the_tables_names_the_command_that_makes_them(project, tmp_path):
    project.rows("DROP DATABASE IF EXISTS empty")
    project.rows("CREATE DATABASE empty")
    empty = Project(project.url.rpartition("/")[0] + "/empty", tmp_path)
    try:
        for flags in ([], ["--no-worker"], ["--drain"]):
            process = empty.manage("runstampeded", *flags)
            assert process.wait() == 1
            assert "manage.py migrate stampeded" in process.output
            assert "Traceback" not in process.output
    finally:
        empty.end()


@pytest.mark.slow
def test_help_explains_the_flags(project):
    process = project.manage("runstampeded", "--help")
    assert process.wait() == 0
    for flag in ("--queue", "--except-queues", "--threads", "--drain", "--once", "--no-worker", "--no-maintenance"):
        assert flag in process.output
