"""Finds the nearest neighbour of a place on the globe; plain arithmetic, no database."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from math import asin, cos, pi, radians, sin, sqrt
from typing import NamedTuple

EARTH_RADIUS_KM = 6371.0088
KM_PER_DEGREE = EARTH_RADIUS_KM * pi / 180


class Place(NamedTuple):
    """A place with the number that it is known by; latitude and longitude in degrees."""

    latitude: float
    longitude: float
    key: int


class Neighbour(NamedTuple):
    key: int
    distance_km: float


def distance_km(a: Place, b: Place) -> float:
    """The great-circle distance by the haversine formula."""
    north, east = radians(b.latitude - a.latitude) / 2, radians(b.longitude - a.longitude) / 2
    h = sin(north) ** 2 + cos(radians(a.latitude)) * cos(radians(b.latitude)) * sin(east) ** 2
    return 2 * EARTH_RADIUS_KM * asin(min(1.0, sqrt(h)))


class Map:
    """Places sorted by latitude, so that a search may stop where latitude alone is already too far."""

    def __init__(self, places: Iterable[Place]) -> None:
        self._places = sorted(places)

    def nearest(self, place: Place) -> Neighbour | None:
        """The nearest other place, or None on a map that has no other."""
        best: Neighbour | None = None
        start = bisect_left(self._places, place)
        for side in (range(start, len(self._places)), range(start - 1, -1, -1)):
            for other in self._within_reach(side, place):
                distance = distance_km(place, other)
                if best is None or distance < best.distance_km:
                    best = Neighbour(other.key, distance)
                if best.distance_km <= abs(other.latitude - place.latitude) * KM_PER_DEGREE:
                    break
        return best

    def _within_reach(self, side: range, place: Place) -> Iterator[Place]:
        return (self._places[i] for i in side if self._places[i].key != place.key)
