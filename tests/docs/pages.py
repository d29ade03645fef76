"""Reads the documentation: which names a reference page has a line for, its code blocks and its links."""

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs"
PAGES = sorted([*REPOSITORY.glob("*.md"), *DOCS.rglob("*.md")])

# A name has its line where it opens a table row or a heading.
_NAME = re.compile(r"^(?:\| |#+ )`([^`]+)`", re.MULTILINE)
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")


def documented(page: str) -> set[str]:
    """The names with a line of their own on docs/reference/<page>.md, without arguments or placeholders."""
    text = (DOCS / "reference" / f"{page}.md").read_text(encoding="utf-8")
    return {re.split(r"[ (=]", name, maxsplit=1)[0] for name in _NAME.findall(text)}


def blocks(page: Path, *languages: str) -> list[str]:
    """The code blocks of a page in the languages given."""
    return [body for language, body in _BLOCK.findall(page.read_text(encoding="utf-8")) if language in languages]


def links(page: Path) -> list[str]:
    """The targets of a page's links."""
    return _LINK.findall(_BLOCK.sub("", page.read_text(encoding="utf-8")))
