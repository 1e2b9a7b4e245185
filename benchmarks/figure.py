"""A figure: what was measured, against what, and whether it reaches its goal."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """`value` and `by_hand` are medians in `unit`; `ratio` is the median of all repetitions', `ratio_min` the least."""

    figure: str
    value: float
    by_hand: float
    unit: str
    ratio: float
    ratio_min: float
    against: str
    goal: float
    holds: bool


@dataclass(frozen=True, slots=True)
class Work:
    """`run` does the work once and returns how many units it did; `prepare` comes before it and is not measured."""

    run: Callable[[], int]
    prepare: Callable[[], None] = lambda: None


def compare(
    figure: str,
    *,
    ours: Work,
    by_hand: Work,
    unit: str,
    against: str,
    goal: float,
    repetitions: int,
    on_repetition: Callable[[], None],
) -> Figure:
    """Both by turns, so that what slows the machine down slows both; the first turn of each only warms up."""
    rates: list[tuple[float, float]] = []
    for repetition in range(repetitions + 1):
        # Whoever comes second finds warmer caches: take turns at that too.
        order = (ours, by_hand) if repetition % 2 else (by_hand, ours)
        rate = {work: _rate(work) for work in order}
        if repetition:
            rates.append((rate[ours], rate[by_hand]))
        on_repetition()
    ratios = [our / hand for our, hand in rates]
    ratio = statistics.median(ratios)
    return Figure(
        figure=figure,
        value=_median([our for our, _ in rates]),
        by_hand=_median([hand for _, hand in rates]),
        unit=unit,
        ratio=round(ratio, 3),
        ratio_min=round(min(ratios), 3),
        against=against,
        goal=goal,
        holds=ratio >= goal,
    )


def _rate(work: Work) -> float:
    work.prepare()
    started = time.perf_counter()
    done = work.run()
    return done / (time.perf_counter() - started)


def _median(rates: Sequence[float]) -> float:
    return round(statistics.median(rates), 1)
