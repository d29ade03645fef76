"""The example's neighbour search, against the plain comparison of all pairs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from example_project.imports.geometry import Map, Place, distance_km

coordinates = st.tuples(st.floats(-90, 90), st.floats(-180, 180))


@given(st.lists(coordinates, min_size=2, max_size=30))
def test_the_nearest_place_is_as_near_as_the_nearest_of_all_pairs(points):
    places = [Place(latitude, longitude, key) for key, (latitude, longitude) in enumerate(points)]
    found = Map(places).nearest(places[0])
    assert found is not None and found.key != 0
    nearest = min(distance_km(places[0], other) for other in places[1:])
    assert found.distance_km == pytest.approx(nearest, abs=1e-6)


def test_a_place_alone_has_no_neighbour():
    alone = Place(1.0, 2.0, 7)
    assert Map([alone]).nearest(alone) is None


def test_a_quarter_of_the_equator_is_ten_thousand_kilometres_long():
    assert round(distance_km(Place(0, 0, 1), Place(0, 90, 2))) == 10_008
