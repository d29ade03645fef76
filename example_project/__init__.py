"""A project that shows django_stampeded at work on a CSV import; the tests run in it too."""
