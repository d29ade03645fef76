"""Addresses of the example project: the admin, which is also the dashboard of the queue."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/", admin.site.urls),
    path("imports/", include("example_project.imports.urls")),
]
