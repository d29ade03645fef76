"""How a length of time is worded on every surface: two units at most, symbols that need no translation. Pure."""

from __future__ import annotations

from datetime import timedelta

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def in_words(length: timedelta | float) -> str:
    """A length of time for people, rounded down to two units.

    Args:
        length: a timedelta or seconds; negative counts as zero.

    Example:
        >>> in_words(7_384)
        '2 h 3 min'
    """
    seconds = length.total_seconds() if isinstance(length, timedelta) else float(length)
    left = max(0, int(seconds))
    for place, (symbol, size) in enumerate(_UNITS):
        count, rest = divmod(left, size)
        if not count:
            continue
        words = f"{count} {symbol}"
        if place + 1 < len(_UNITS):
            next_symbol, next_size = _UNITS[place + 1]
            if rest >= next_size:
                words += f" {rest // next_size} {next_symbol}"
        return words
    return "0 s"
