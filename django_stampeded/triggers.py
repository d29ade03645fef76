"""The triggers of cold tables, made by django-pgtrigger: the same SQL whatever the host project's settings say."""

from __future__ import annotations

import pgtrigger
from django.db import models
from pgtrigger import compiler


class _Pinned:
    """Keeps a host project's PGTRIGGER_ settings out of our migrations, and its helper function in our own schema."""

    def compile(self, model: type[models.Model]) -> compiler.Trigger:
        trigger = super().compile(model)  # type: ignore[misc]
        parts = {**trigger.sql.kwargs, "ignore_func_name": "_pgtrigger_should_ignore"}
        return compiler.Trigger(name=trigger.name, sql=compiler.UpsertTriggerSql(**parts))


class KeepUpdatedAt(_Pinned, pgtrigger.Trigger):  # type: ignore[misc]
    """Sets updated_at whenever anything else of the row changes, whoever changes it."""

    when = pgtrigger.Before
    operation = pgtrigger.Update
    condition = pgtrigger.AnyChange(exclude=["updated_at"])
    func = "NEW.updated_at := clock_timestamp(); RETURN NEW;"


class AppendOnly(_Pinned, pgtrigger.Protect):  # type: ignore[misc]
    """Refuses to change or delete a row."""
