"""Changes of a record, which mypy has to refuse: an error that is not there is an error here."""

from __future__ import annotations

from dataclasses import replace

from catalog.model.record import record


@record
class Point:
    x: int
    y: int = 0


def change(point: Point) -> Point:
    point.x = 1  # type: ignore[misc]
    Point(1)  # type: ignore[call-arg]
    replace(point, z=1)  # type: ignore[call-arg]
    return replace(point, y=2)
