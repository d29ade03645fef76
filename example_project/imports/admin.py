"""Shows the imports and their records in the admin, read-only: jobs write them, not people."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest

from example_project.imports.models import CsvImport, Record


class ReadOnlyAdmin(admin.ModelAdmin):
    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False


@admin.register(CsvImport)
class CsvImportAdmin(ReadOnlyAdmin):
    list_display = ["__str__", "total", "created_at", "reported_at"]


@admin.register(Record)
class RecordAdmin(ReadOnlyAdmin):
    list_display = ["label", "group", "distance_km", "nearest", "reference", "examined_at"]
    list_filter = ["csv_import"]
    list_select_related = ["nearest"]
    search_fields = ["label", "group"]
    show_full_result_count = False
