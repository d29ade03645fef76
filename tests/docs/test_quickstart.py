"""The quickstart, followed to the letter in a project of its own: what it says happens."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from django_stampeded.testing.postgres import LocalPostgres

from .pages import DOCS, REPOSITORY, blocks

pytestmark = pytest.mark.slow

SETTINGS = """
DATABASES = {{"default": __import__("environ").Env().db("DATABASE_URL")}}
{apps}
INSTALLED_APPS += ["shop"]
"""
MODELS = """
from django.db import models

class Order(models.Model):
    customer = models.TextField()
"""


class Project:
    """A Django project in a folder, with a server of its own."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "DATABASE_URL": url,
            "DJANGO_SETTINGS_MODULE": "mysite.settings",
            "PYTHONPATH": str(REPOSITORY),
        }

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self.environment,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def manage(self, *arguments: str) -> str:
        return self.run("manage.py", *arguments)


@pytest.fixture
def project(tmp_path: Path):
    with LocalPostgres() as server:
        made = Project(tmp_path, server.url)
        del made.environment["DJANGO_SETTINGS_MODULE"]
        made.run("-m", "django", "startproject", "mysite", ".")
        made.manage("startapp", "shop")
        made.environment["DJANGO_SETTINGS_MODULE"] = "mysite.settings"
        yield made


def test_the_quickstart_works_as_it_stands(project):
    page = DOCS / "quickstart.md"
    apps, tasks, enqueue = blocks(page, "python")
    (project.folder / "mysite" / "settings.py").open("a").write(SETTINGS.format(apps=apps.replace("# ...", "*INSTALLED_APPS,")))
    (project.folder / "shop" / "models.py").write_text(MODELS)
    (project.folder / "shop" / "tasks.py").write_text(tasks)
    (project.folder / "shop" / "orders.py").write_text(enqueue)
    project.manage("makemigrations", "shop")
    project.manage("migrate")
    project.manage("check", "--database", "default", "--fail-level", "WARNING")
    project.manage("shell", "-c", "from shop.orders import place_order; place_order('Ada')")
    assert "Sending the receipt of order 1" in project.manage("runstampeded", "--drain")
    assert "completed" in project.manage("stampeded", "stats")


def test_a_project_with_less_than_the_quickstart_asks_for_is_told_what_is_missing(project):
    settings = SETTINGS.format(apps="INSTALLED_APPS += ['pgtrigger', 'django_stampeded']")
    (project.folder / "mysite" / "settings.py").open("a").write(settings)
    with pytest.raises(AssertionError, match="Add 'django.contrib.postgres'"):
        project.manage("check")
