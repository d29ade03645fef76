"""The dashboard in Django's admin: jobs, queues, workers, schedules, audit. Importing it registers all of them.

A project with an AdminSite of its own calls `register(site)`. What is shown comes from `insights`, what is done goes
through `actions`; only pages, permissions and wording live here.
"""

from django_stampeded.admin.site import register

__all__ = ["register"]

register()
