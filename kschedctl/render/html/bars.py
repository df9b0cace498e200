"""BarChart made of pieces, as the numbers of an SVG drawing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kschedctl.render.printable import printable

WIDTH, LEFT, RIGHT, STEP = 720, 170, 60, 22
LOOKS = 8
"""Pieces of the first seven names look different, all others alike."""
LABEL = 26
"""Characters of a name that find room beside its bar."""


@dataclass(frozen=True)
class Piece:
    x: float
    width: float
    look: int
    title: str


@dataclass(frozen=True)
class Bar:
    label: str
    y: int
    pieces: tuple[Piece, ...]
    end: float
    total: str


@dataclass(frozen=True)
class BarChart:
    """``keys``: names and their looks."""

    title: str
    bars: tuple[Bar, ...]
    keys: tuple[tuple[str, int], ...]
    height: int
    width: int = WIDTH
    left: int = LEFT


def bars(title: str, amounts: Mapping[str, Mapping[str, int]], totals: Mapping[str, int]) -> BarChart:
    """One bar a label, a piece a name. ``amounts``: label -> name -> how much, 0 or more; ``totals``: of each label."""
    names = tuple(dict.fromkeys(name for pieces in amounts.values() for name, amount in pieces.items() if amount > 0))
    looks = {name: min(i, LOOKS - 1) for i, name in enumerate(names)}
    widest = max([sum(pieces.values()) for pieces in amounts.values()] + [1])
    unit = (WIDTH - LEFT - RIGHT) / widest
    drawn = tuple(
        _bar(label, i * STEP, amounts[label], f"{totals[label]:,}", (unit, looks)) for i, label in enumerate(amounts)
    )
    keys = tuple((printable(name), looks[name]) for name in names)
    return BarChart(printable(title), drawn, keys, max(len(amounts) * STEP, STEP))


def _bar(label: str, y: int, pieces: Mapping[str, int], total: str, scale: tuple[float, Mapping[str, int]]) -> Bar:
    """``scale``: how wide one is, and the looks of names."""
    x, made, (unit, looks) = float(LEFT), [], scale
    for name, amount in pieces.items():
        if amount > 0:
            made.append(Piece(round(x, 1), round(amount * unit, 1), looks[name], f"{printable(name)} {amount:,}"))
            x += amount * unit
    return Bar(_shortened(printable(label)), y, tuple(made), round(x, 1), total)


def _shortened(label: str) -> str:
    """The end tells nodes of a pool apart."""
    return label if len(label) <= LABEL else f"…{label[1 - LABEL :]}"
