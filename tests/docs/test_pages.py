"""What the pages tell a reader to type exists: links, make targets, management commands, imports."""

import ast
import importlib
import re
from pathlib import Path

import pytest
from django.core.management import get_commands

from .pages import PAGES, REPOSITORY, blocks, links

SHELL = ("console", "sh", "shell", "bash")
pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))


@pages
def test_links_between_pages_lead_somewhere(page: Path):
    targets = [link.partition("#")[0] for link in links(page) if not re.match(r"[a-z]+:", link)]
    assert [target for target in targets if target and not (page.parent / target).exists()] == []


@pages
def test_make_targets_named_on_a_page_exist(page: Path):
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"`make ([a-z-]+)", text))
    for block in blocks(page, *SHELL):
        named |= set(re.findall(r"^(?:\$ )?make ([a-z-]+)", block, re.MULTILINE))
    assert named <= targets


@pages
def test_management_commands_named_on_a_page_exist(page: Path):
    named = set(re.findall(r"manage\.py ([a-z_]+)", page.read_text(encoding="utf-8")))
    assert named <= set(get_commands())


@pages
def test_python_on_a_page_parses_and_imports_what_exists(page: Path):
    for block in blocks(page, "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("django_stampeded"):
                module = importlib.import_module(node.module or "")
                assert [name.name for name in node.names if not hasattr(module, name.name)] == []


def test_every_page_is_linked_from_the_readme():
    pages = {page.relative_to(REPOSITORY) for page in PAGES if page.name != "README.md"}
    linked = {Path(link.partition("#")[0]) for link in links(REPOSITORY / "README.md")}
    assert pages - linked == set()


def test_the_layers_on_the_page_of_the_architecture_are_the_packages_modules():
    package = REPOSITORY / "django_stampeded"
    made = {path.stem for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    table = (REPOSITORY / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8").partition("| layer |")[2]
    named = set(re.findall(r"`(\w+)`", table.partition("\n\n")[0]))
    assert named == made - {"__init__", "apps", "migrations"}
