"""The app's entry point: what Django runs once all apps are loaded, and nothing else."""

from __future__ import annotations

from django.apps import AppConfig, apps
from django.core.exceptions import ImproperlyConfigured


class StampededConfig(AppConfig):
    name = "django_stampeded"
    label = "stampeded"
    verbose_name = "Stampeded"
    default_auto_field = "django.db.models.BigAutoField"

    def import_models(self) -> None:
        # Without pgtrigger the models do not even import, so that no system check could say why.
        if not apps.is_installed("pgtrigger"):
            raise ImproperlyConfigured("django_stampeded needs django-pgtrigger: add 'pgtrigger' to INSTALLED_APPS.")
        super().import_models()

    def ready(self) -> None:
        from django_stampeded import (
            actions,  # noqa: F401  # each process knows the task that does bulk operations
            checks,
            inline,
            registry,
            scheduling,
            schema,
        )

        schema.connect_migrate_lock(self)
        scheduling.connect(self)
        checks.register_all()
        registry.autodiscover()
        inline.start_beside_runserver()
