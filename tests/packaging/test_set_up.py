"""The set-up that every make target does by itself: once, again when it must, and with one plain sentence if it can't."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]

# A python3 that says it is of the version, may lack a module, and makes environments that note each installation.
PYTHON = """#!/bin/sh
case "$*" in
-V) echo "Python {version}" ;;
*version_info*) {new_enough} ;;
*ensurepip*) {has_venv} ;;
-m\\ venv*)
    for folder; do :; done
    mkdir -p "$folder/bin"
    cp "$0" "$folder/bin/python" ;;
-m\\ pip*) echo "$*" >>"{log}" ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with a space in its name that holds what the set-up reads."""
    folder = tmp_path / "a checkout"
    (folder / ".ci").mkdir(parents=True)
    shutil.copy(REPOSITORY / ".ci" / "venv", folder / ".ci" / "venv")
    (folder / "pyproject.toml").write_text("[project]\n")
    return folder


def python(folder: Path, *, version: str = "3.11.7", new_enough: bool = True, has_venv: bool = True) -> Path:
    program = folder / "python3"
    text = PYTHON.format(
        version=version,
        new_enough="true" if new_enough else "false",
        has_venv="true" if has_venv else "false",
        log=folder / "installed.log",
    )
    program.write_text(text)
    program.chmod(0o755)
    return program


def set_up(folder: Path, python: Path | str, *requirements: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [".ci/venv", ".venv", str(python), *(requirements or ("-e", ".[dev]"))],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "LC_ALL": "C"},
    )


def installations(folder: Path) -> int:
    log = folder / "installed.log"
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_it_installs_once_and_again_only_when_pyproject_changes(checkout):
    program = python(checkout)
    assert set_up(checkout, program).returncode == 0
    assert set_up(checkout, program).returncode == 0
    assert installations(checkout) == 1
    (checkout / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    assert set_up(checkout, program).returncode == 0
    assert installations(checkout) == 2


def test_other_requirements_are_installed_too(checkout):
    program = python(checkout)
    set_up(checkout, program)
    set_up(checkout, program, "Django~=6.0.0")
    assert installations(checkout) == 2


def test_a_checkout_that_moved_is_set_up_anew(checkout):
    set_up(checkout, python(checkout))
    moved = checkout.rename(checkout.with_name("moved"))
    assert set_up(moved, python(moved)).returncode == 0
    assert installations(moved) == 2


def test_an_installation_that_was_broken_off_is_done_again(checkout):
    program = python(checkout)
    set_up(checkout, program)
    (checkout / ".venv" / ".stamp").unlink()
    set_up(checkout, program)
    assert installations(checkout) == 2


def test_a_python_that_is_too_old_is_told_in_one_sentence(checkout):
    done = set_up(checkout, python(checkout, version="3.10.1", new_enough=False))
    assert done.returncode != 0
    assert done.stderr == (
        "error: Python 3.10.1 is too old; install Python 3.11 or newer, or say make PYTHON=/path/to/python3.\n"
    )
    assert installations(checkout) == 0


def test_a_python_without_venv_is_told_in_one_sentence(checkout):
    program = python(checkout, has_venv=False)
    done = set_up(checkout, program)
    assert done.returncode != 0
    assert done.stderr == (
        f"error: {program} cannot make virtual environments; install python3-venv "
        "(Debian and Ubuntu: apt-get install python3-venv).\n"
    )
    assert not (checkout / ".venv").exists()


def test_a_python_that_is_not_there_is_told_in_one_sentence(checkout):
    done = set_up(checkout, "python3-that-is-nowhere")
    assert done.returncode != 0
    assert done.stderr.count("\n") == 1
    assert "python3-that-is-nowhere was not found; install Python 3.11 or newer" in done.stderr
