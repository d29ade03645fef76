"""The shape that the repository keeps: sizes, names, import directions, and nothing of the machine it was written on."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import call_command

from django_stampeded import schema

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "django_stampeded"
CODE = ("django_stampeded", "example_project", "bench")

# Written in halves, so that this file doesn't find itself.
MACHINE = ["/wo" + "rk/", "/ro" + "ot/", "/ho" + "me/", "../sha" + "red"]
REGISTRIES = ["pypi" + ".org", "pythonhosted" + ".org", "npmjs" + ".org", "npmjs" + ".com", "debian" + ".org"]
PURE = ["states", "exceptions", "backoff", "breaking", "planning", "arguments", "options", "encoding", "decoding"]
PURE += [f"worker/{name}" for name in ("claims", "outcomes", "selection", "failure_text")]

Function = ast.FunctionDef | ast.AsyncFunctionDef


def files(*patterns: str) -> list[Path]:
    """The repository's own files, as git would commit them."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns],
        capture_output=True,
        text=True,
        check=True,
        cwd=REPOSITORY,
    ).stdout
    paths = [REPOSITORY / name for name in listed.split("\0") if name]
    return [path for path in paths if path.is_file()]


def modules() -> list[Path]:
    """The code, migrations left out: most of them is written by Django."""
    written = [path for path in files("*.py") if path.parent.name != "migrations"]
    return [path for path in written if path.relative_to(REPOSITORY).parts[0] in CODE]


def functions(path: Path) -> Iterator[Function]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    yield from (node for node in ast.walk(tree) if isinstance(node, Function))


def length(function: Function) -> int:
    """Lines from `def` to the end, the docstring left out."""
    assert function.end_lineno is not None
    lines = function.end_lineno - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is not None and first.end_lineno is not None:
        lines -= first.end_lineno - first.lineno + 1
    return lines


def where(path: Path, line: int | None = None) -> str:
    return str(path.relative_to(REPOSITORY)) + (f":{line}" if line else "")


@pytest.mark.parametrize("word", [*MACHINE, *REGISTRIES])
def test_no_file_speaks_of_a_machine_or_a_registry(word):
    found = []
    for path in files():
        text = path.read_bytes().decode(errors="replace")
        found += [where(path, number) for number, line in enumerate(text.splitlines(), 1) if word in line]
    assert found == []


def test_no_module_is_longer_than_400_lines():
    long = [where(path) for path in modules() if len(path.read_text(encoding="utf-8").splitlines()) > 400]
    assert long == []


def test_no_function_is_longer_than_40_lines_and_nine_in_ten_are_under_30():
    sizes = {where(path, each.lineno): length(each) for path in modules() for each in functions(path)}
    assert {place: size for place, size in sizes.items() if size > 40} == {}
    assert sum(size < 30 for size in sizes.values()) >= 0.9 * len(sizes)


def test_no_module_is_named_after_nothing():
    names = {"utils.py", "util.py", "base.py", "helpers.py", "common.py", "misc.py"}
    assert [where(path) for path in files("*.py") if path.name in names] == []


def test_every_module_says_what_it_owns():
    def silent(path: Path) -> bool:
        text = path.read_text(encoding="utf-8")
        return bool(text.strip()) and not ast.get_docstring(ast.parse(text))

    assert [where(path) for path in files("*.py") if path.parent.name != "migrations" and silent(path)] == []


def test_every_public_function_and_class_of_the_package_is_typed():
    untyped = []
    for path in files("django_stampeded/*.py"):
        for function in functions(path):
            if function.returns is None and not function.name.startswith("__"):
                untyped.append(where(path, function.lineno))
    assert untyped == []


@pytest.mark.parametrize("name", PURE)
def test_a_pure_module_knows_no_database(name):
    path = PACKAGE / f"{name}.py"
    if not path.exists():
        pytest.fail(f"{name}.py is gone; take it off the list of pure modules")
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        imported = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        imported += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        assert not [name for name in imported if name.startswith(("django.db", "psycopg"))], where(path)


def test_imports_go_downwards_only():
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_lint_finds_nothing():
    done = subprocess.run([sys.executable, "-m", "ruff", "check"], capture_output=True, text=True, cwd=REPOSITORY)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_types_hold():
    done = subprocess.run([sys.executable, "-m", "mypy"], capture_output=True, text=True, cwd=REPOSITORY)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.django_db
def test_no_migration_is_missing():
    call_command("makemigrations", check=True, dry_run=True)


def test_no_released_sql_file_has_changed():
    assert schema.checksums() == schema.json.loads(schema.MANIFEST.read_text(encoding="utf-8"))
