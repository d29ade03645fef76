"""One page: the imports with their progress, and a button that imports the latest file once more."""

from __future__ import annotations

from pathlib import Path

from django.contrib.admin.views.decorators import staff_member_required
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST

from example_project.imports.models import CsvImport
from example_project.imports.tasks import start_import

IMPORTS_SHOWN = 20


@staff_member_required
def index(request: HttpRequest) -> HttpResponse:
    """The latest imports and how far each has come."""
    imports = CsvImport.objects.annotate(done=Count("records", filter=Q(records__examined_at__isnull=False)))
    return render(request, "imports/index.html", {"imports": imports.order_by("-pk")[:IMPORTS_SHOWN]})


@require_POST
@staff_member_required
def again(request: HttpRequest, import_id: int) -> HttpResponse:
    """Imports a file anew, in the background: the page answers at once."""
    earlier = get_object_or_404(CsvImport, pk=import_id)
    start_import(Path(earlier.source), Path(earlier.folder).parent, earlier.row_limit)
    return redirect("imports:index")


@staff_member_required
def report(request: HttpRequest, import_id: int) -> HttpResponse:
    """The written report of an import."""
    source = get_object_or_404(CsvImport, pk=import_id, reported_at__isnull=False)
    return HttpResponse(source.report_html.read_text(encoding="utf-8"))
