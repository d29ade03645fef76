import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="CsvImport",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                ("source", models.TextField()),
                ("folder", models.TextField(default="", help_text="Where the report is written.")),
                ("row_limit", models.PositiveIntegerField(blank=True, null=True)),
                ("total", models.PositiveIntegerField(blank=True, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("reported_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "verbose_name": "import",
                "ordering": ["-pk"],
            },
        ),
        migrations.CreateModel(
            name="Record",
            fields=[
                (
                    "id",
                    models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                ),
                ("number", models.PositiveIntegerField()),
                ("label", models.TextField()),
                ("group", models.TextField()),
                ("latitude", models.FloatField(blank=True, null=True)),
                ("longitude", models.FloatField(blank=True, null=True)),
                ("cells", models.JSONField()),
                ("gaps", models.JSONField(blank=True, default=list)),
                ("distance_km", models.FloatField(blank=True, null=True)),
                ("needs_reference", models.BooleanField(default=False)),
                ("reference", models.TextField(blank=True, default="")),
                ("examined_at", models.DateTimeField(blank=True, null=True)),
                (
                    "csv_import",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="records",
                        to="imports.csvimport",
                    ),
                ),
                (
                    "nearest",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="imports.record",
                    ),
                ),
            ],
            options={
                "ordering": ["csv_import", "number"],
                "constraints": [models.UniqueConstraint(fields=("csv_import", "number"), name="imports_record_number")],
            },
        ),
    ]
