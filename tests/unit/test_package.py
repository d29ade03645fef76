"""The public names, loaded when asked for."""

import subprocess
import sys

import pytest

import django_stampeded


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


def test_importing_the_package_imports_neither_django_nor_models():
    done = python(
        "import sys, django_stampeded\n"
        "print([name for name in sys.modules if name.startswith('django') and name != 'django_stampeded'])"
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_tasks_can_be_defined_before_apps_are_ready():
    done = python(
        "from django.conf import settings\nsettings.configure()\n"
        "from django_stampeded import task\n"
        "@task(queue_name='mail')\ndef work(n: int): ...\n"
        "import sys; print('django_stampeded.models' in sys.modules, work.name)"
    )
    assert done.stdout.strip() == "False __main__.work", done.stderr


def test_every_public_name_is_there_whatever_was_imported_before():
    done = python(
        "from django.conf import settings\nsettings.configure()\n"
        "import django_stampeded.enqueueing, django_stampeded.tasks\n"
        "from django_stampeded import enqueue, task, task_by_name, enqueue_many\n"
        "print(callable(enqueue), callable(task), callable(task_by_name), callable(enqueue_many))"
    )
    assert done.stdout.strip() == "True True True True", done.stderr


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = django_stampeded.nonsense


def test_dir_lists_the_public_names():
    assert set(django_stampeded.__all__) <= set(dir(django_stampeded))
