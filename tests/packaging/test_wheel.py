"""What a user installs: the built wheel holds everything that the package reads at run time, and nothing else."""

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator

import pytest

from .test_repository import REPOSITORY, files

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    """The wheel, built of a copy, since building leaves folders behind."""
    copy = tmp_path_factory.mktemp("copy")
    for path in files():
        target = copy / path.relative_to(REPOSITORY)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(target), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next(target.glob("*.whl"))) as built:
        yield built


def test_every_file_of_the_package_is_in_the_wheel(wheel):
    expected = {str(path.relative_to(REPOSITORY)) for path in files("django_stampeded")}
    assert expected - set(wheel.namelist()) == set()


def test_nothing_but_the_package_is_in_the_wheel(wheel):
    others = [name for name in wheel.namelist() if not name.startswith("django_stampeded")]
    assert others == []


def test_the_licence_and_the_requirements_are_told(wheel):
    names = wheel.namelist()
    metadata = wheel.read(next(name for name in names if name.endswith("METADATA"))).decode()
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert "License-Expression: BSD-3-Clause" in metadata
    assert "Requires-Python: >=3.11" in metadata
    assert "Requires-Dist: Django>=5.2" in metadata
