"""Names the example application to Django; its tasks are found in `tasks.py` like any application's."""

from django.apps import AppConfig


class ImportsConfig(AppConfig):
    name = "example_project.imports"
    label = "imports"
    verbose_name = "CSV imports"
    default_auto_field = "django.db.models.BigAutoField"
