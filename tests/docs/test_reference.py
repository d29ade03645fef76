"""Every setting, command, check, signal, model and SQL function has its line in docs/reference, and no line lies."""

import argparse
import re
from pathlib import Path

import pytest
from django.apps import apps
from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand
from django.db import connection
from django.dispatch import Signal

import django_stampeded
from django_stampeded import conf, signals, states

from .pages import DOCS, REPOSITORY, documented

PACKAGE = REPOSITORY / "django_stampeded"
INHERITED = {option for action in BaseCommand().create_parser("manage.py", "none")._actions for option in action.option_strings}


def own_commands() -> list[str]:
    return sorted(name for name, app in get_commands().items() if app == "django_stampeded")


def all_options(parser: argparse.ArgumentParser) -> set[str]:
    """The options of a command and of its subcommands."""
    found: set[str] = set()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, sub in action.choices.items():
                found |= {f"{parser.prog.split()[-1]} {name}"} | all_options(sub)
        else:
            found.update(option for option in action.option_strings if option.startswith("--"))
    return found - INHERITED


def installed_functions() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = current_schema()::regnamespace "
            "AND starts_with(proname, 'stampeded_')"
        )
        return {name for (name,) in cursor.fetchall()}


def check_ids() -> set[str]:
    sources = (path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    return {found for text in sources for found in re.findall(r"stampeded\.[EWI]\d{3}", text)}


def test_every_setting_has_its_line_and_every_line_a_setting():
    assert documented("settings") == set(conf.FIELDS)


@pytest.mark.parametrize("command", own_commands())
def test_every_command_has_its_line_with_all_its_options(command):
    text = (DOCS / "reference" / "commands.md").read_text(encoding="utf-8")
    assert command in documented("commands")
    parser = load_command_class("django_stampeded", command).create_parser("manage.py", command)
    missing = sorted(option for option in all_options(parser) if f"`{option}" not in text)
    assert not missing, f"docs/reference/commands.md says nothing of {missing}"


def test_every_option_on_the_page_of_commands_exists():
    text = (DOCS / "reference" / "commands.md").read_text(encoding="utf-8")
    known = set(INHERITED)
    for command in own_commands():
        known |= all_options(load_command_class("django_stampeded", command).create_parser("manage.py", command))
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)) <= known


def test_every_check_has_its_line_and_every_line_a_check():
    assert documented("checks") == check_ids()


def test_every_signal_has_its_line_and_every_line_a_signal():
    assert documented("signals") == {name for name, value in vars(signals).items() if isinstance(value, Signal)}


@pytest.mark.django_db
def test_every_sql_function_has_its_line_and_every_line_a_function():
    assert documented("sql-functions") == installed_functions()


@pytest.mark.django_db
def test_every_sql_file_of_a_function_makes_the_function_it_is_named_after():
    names = {f"stampeded_{path.stem.rpartition('_v')[0]}" for path in (PACKAGE / "sql" / "functions").glob("*.sql")}
    assert names == installed_functions()


def test_every_model_has_its_line_with_all_its_columns():
    text = (DOCS / "reference" / "models.md").read_text(encoding="utf-8")
    models = list(apps.get_app_config("stampeded").get_models())
    assert documented("models") >= {model.__name__ for model in models}
    columns = {field.column for model in models for field in model._meta.fields if field.column}
    missing = sorted(column for column in columns if f"`{column}`" not in text)
    assert not missing, f"docs/reference/models.md says nothing of {missing}"


def test_every_state_and_failure_kind_is_explained():
    text = (DOCS / "reference" / "states.md").read_text(encoding="utf-8")
    words = [member.value for enumeration in (states.State, states.FailureKind) for member in enumeration]
    assert [word for word in words if f"| `{word}`" not in text] == []


def test_every_public_name_has_its_line_and_its_docstring():
    names = set(django_stampeded.__all__)
    assert documented("python") >= names
    assert [name for name in sorted(names) if not getattr(django_stampeded, name).__doc__] == []


def test_every_page_of_the_reference_is_tested_here():
    pages = {path.stem for path in (DOCS / "reference").glob("*.md")}
    assert pages == set(re.findall(r'(?:documented\("|"reference" / ")([a-z-]+)', Path(__file__).read_text()))
