"""The example project's settings with an app of tasks for tests; STAMPEDED may come as JSON from the environment."""

import json
import os

from example_project.settings import *  # noqa: F403
from example_project.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.testapp"]
STAMPEDED = json.loads(os.environ.get("TEST_STAMPEDED", "{}"))
