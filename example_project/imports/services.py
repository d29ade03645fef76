"""Stand-ins for other people's servers, which fail in ways that are the same in every run.

A real application would have HTTP clients here. What the jobs see is the same: an answer, or an exception.
"""

from __future__ import annotations

from hashlib import sha256
from zlib import crc32


class RegistryBusy(Exception):
    """The registry is overloaded and asks to be asked again later."""


class PartnerUnreachable(Exception):
    """The partner's server does not answer."""


def refusals(label: str) -> int:
    """How many times the registry turns this label away before it answers: 0, 1 or 2."""
    return crc32(label.encode()) % 3


def reference_for(label: str, attempt: int) -> str:
    """The registry's reference number of a label; the same for the same label, however often it is asked.

    Raises RegistryBusy on the first attempts, `refusals(label)` of them.
    """
    if attempt <= refusals(label):
        raise RegistryBusy(f"503 Service Unavailable: the registry is busy (attempt {attempt})")
    return f"R-{sha256(label.encode()).hexdigest()[:8]}"


def publish(title: str) -> None:
    """Sends a report to a partner whose server has been down for as long as anyone remembers."""
    raise PartnerUnreachable(f"connection to partner.invalid refused while publishing {title!r}")
