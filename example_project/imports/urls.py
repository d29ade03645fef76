"""Addresses of the example application."""

from django.urls import path

from example_project.imports import views

app_name = "imports"
urlpatterns = [
    path("", views.index, name="index"),
    path("<int:import_id>/again/", views.again, name="again"),
    path("<int:import_id>/report/", views.report, name="report"),
]
