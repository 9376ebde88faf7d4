"""A figure over the steps of a training that may be long: a bounded number of points. Pure."""

import msgspec

MOST_POINTS = 512

Point = tuple[int, float | None]  # None: it was not finite


class Curve(msgspec.Struct):
    """Takes a value a step. When it is full, every other point goes, and from then on only every other one comes."""

    points: list[Point] = []
    stride: int = 1

    def add(self, step: int, value: float | None) -> None:
        if step % self.stride:
            return
        self.points.append((step, value))
        if len(self.points) > MOST_POINTS:
            self.stride *= 2
            self.points = [point for point in self.points if point[0] % self.stride == 0]


def mean_of(curves: list[Curve]) -> list[Point]:
    """The mean of several, where all have a point; not finite where one of them is not."""
    tables = [dict(curve.points) for curve in curves]
    steps = sorted(set.intersection(*map(set, tables))) if tables else []
    return [(step, _mean([table[step] for table in tables])) for step in steps]


def _mean(values: list[float | None]) -> float | None:
    told = [value for value in values if value is not None]
    return sum(told) / len(told) if len(told) == len(values) else None
