"""The app's entry point: what Django runs once all apps are loaded, and nothing else."""

from __future__ import annotations

from django.apps import AppConfig


class StampededConfig(AppConfig):
    name = "django_stampeded"
    label = "stampeded"
    verbose_name = "Stampeded"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django_stampeded import schema

        schema.connect_migrate_lock(self)
