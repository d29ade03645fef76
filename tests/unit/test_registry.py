"""Finding an app's tasks module, and what happens when one does not import."""

import logging
import sys
import types

import pytest
from django.apps import AppConfig, apps

from django_stampeded import registry


@pytest.fixture
def shops(tmp_path, monkeypatch):
    """Installs apps whose tasks modules have the given sources, and puts the registry back afterwards."""
    for name in ("_tasks", "_names"):
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))
    monkeypatch.setattr(registry, "broken", [])
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(**sources):
        configs = []
        for name, source in sources.items():
            (tmp_path / name).mkdir()
            (tmp_path / name / "__init__.py").touch()
            if source is not None:
                (tmp_path / name / "tasks.py").write_text(source)
            module = types.ModuleType(name)
            module.__path__ = [str(tmp_path / name)]
            monkeypatch.setitem(sys.modules, name, module)
            configs.append(AppConfig(name, module))
        monkeypatch.setattr(apps, "get_app_configs", lambda: configs)

    yield install
    for name in [each for each in sys.modules if each.startswith("shop_")]:
        del sys.modules[name]


GOOD = "from django_stampeded import task\n@task(name='{0}.work')\ndef work(): ...\n"


def test_the_tasks_of_every_app_are_found(shops):
    shops(shop_a=GOOD.format("shop_a"), shop_b=None, shop_c=GOOD.format("shop_c"))
    registry.autodiscover()
    assert registry.get("shop_a.work") and registry.get("shop_c.work")
    assert registry.broken == []


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("import nowhere_at_all", ImportError),
        ("def broken(:", SyntaxError),
        ("1 / 0", ZeroDivisionError),
        ("from django_stampeded import task\n@task(priority=40000)\ndef f(): ...", ValueError),
    ],
)
def test_a_module_that_fails_stops_no_other_and_is_noted_and_logged(shops, caplog, source, error):
    shops(shop_a=source, shop_b=GOOD.format("shop_b"))
    with caplog.at_level(logging.ERROR, "django_stampeded.registry"):
        registry.autodiscover()
    assert registry.get("shop_b.work")
    assert [(each.module, isinstance(each.error, error)) for each in registry.broken] == [("shop_a.tasks", True)]
    assert [record.getMessage() for record in caplog.records] == [
        "The tasks of shop_a are unknown to this process, as shop_a.tasks did not import: "
        "mend it and restart; until then their jobs are put off."
    ]


def test_a_duplicate_name_in_a_module_is_noted(shops):
    shops(shop_a=GOOD.format("shop_a"), shop_b=GOOD.format("shop_a"))
    registry.autodiscover()
    assert [each.module for each in registry.broken] == ["shop_b.tasks"]
    assert "Two tasks are called 'shop_a.work'" in str(registry.broken[0].error)


def test_discovering_again_forgets_what_was_broken(shops):
    shops(shop_a="1 / 0")
    registry.autodiscover()
    shops()
    registry.autodiscover()
    assert registry.broken == []
