"""A small shop that shows django_stampeded at work; also the project that the tests run in."""
