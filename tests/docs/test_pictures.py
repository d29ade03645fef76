"""Each page of the admin that is pictured has its two pictures, small enough to be kept, and they are shown."""

import pytest

from docs.screenshots.__main__ import IMAGES, MOST_BYTES, PAGES, SCHEMES

from .pages import DOCS

PICTURES = [f"{name}-{scheme}.png" for name, _, _ in PAGES for scheme in SCHEMES]


@pytest.mark.parametrize("picture", PICTURES)
def test_a_picture_is_there_small_and_shown(picture: str) -> None:
    assert 0 < (IMAGES / picture).stat().st_size <= MOST_BYTES
    shown = [page for page in DOCS.rglob("*.md") if f"images/{picture})" in page.read_text(encoding="utf-8")]
    assert shown, f"make screenshots takes {picture}, and no page shows it"


def test_no_picture_is_left_over() -> None:
    assert {path.name for path in IMAGES.iterdir()} == set(PICTURES)
