"""The example project's settings, plus this package, so that a worker finds the tasks to measure with."""

from example_project.settings import *  # noqa: F403
from example_project.settings import INSTALLED_APPS as EXAMPLE_APPS

DEBUG = False
INSTALLED_APPS = [*EXAMPLE_APPS, "bench"]
LOGGING = {"version": 1, "disable_existing_loggers": False, "root": {"level": "WARNING"}}
