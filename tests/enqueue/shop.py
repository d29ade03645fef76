"""Tasks that the enqueue tests enqueue. None of them is ever run."""

from __future__ import annotations

from typing import Any

from django_stampeded import task


@task(name="shop.resize", queue_name="images")
def resize(path: str, width: int = 100) -> None:
    """One required argument, one with a default."""


@task(name="shop.keep")
def keep(x: Any = None, **others: Any) -> None:
    """Takes anything, on the default queue."""


@task(name="shop.sync", queue_name="sync", unique="args")
def sync(a: int | None = None, b: int | None = None) -> None:
    """One job for the same arguments."""


@task(name="shop.renamed", aliases=["shop.old_name"])
def renamed() -> None:
    """Had another name once."""
