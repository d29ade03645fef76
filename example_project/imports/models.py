"""What the example application keeps: the imports, and one record for each row of their files."""

from __future__ import annotations

from pathlib import Path

from django.db import models


class CsvImport(models.Model):
    """One run over one file; `total` is null until the file has been read."""

    source = models.TextField()
    folder = models.TextField(default="", help_text="Where the report is written.")
    row_limit = models.PositiveIntegerField(null=True, blank=True)
    total = models.PositiveIntegerField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    reported_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-pk"]
        verbose_name = "import"

    def __str__(self) -> str:
        return f"{Path(self.source).name} (import {self.pk})"

    @property
    def report_html(self) -> Path:
        return Path(self.folder) / "report.html"

    @property
    def report_csv(self) -> Path:
        return Path(self.folder) / "report.csv"


class Record(models.Model):
    """One row of a file, and what the jobs found out about it."""

    csv_import = models.ForeignKey(CsvImport, on_delete=models.CASCADE, related_name="records")
    number = models.PositiveIntegerField()
    label = models.TextField()
    group = models.TextField()
    latitude = models.FloatField(null=True, blank=True)
    longitude = models.FloatField(null=True, blank=True)
    cells = models.JSONField()
    gaps = models.JSONField(default=list, blank=True)
    nearest = models.ForeignKey("self", on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    distance_km = models.FloatField(null=True, blank=True)
    needs_reference = models.BooleanField(default=False)
    reference = models.TextField(default="", blank=True)
    examined_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["csv_import", "number"]
        constraints = [models.UniqueConstraint(fields=["csv_import", "number"], name="imports_record_number")]

    def __str__(self) -> str:
        return self.label
