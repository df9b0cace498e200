"""Columns of texts, held as numbers: distinct texts, times of day, UIDs. A text is made when it is asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from time import gmtime, strftime
from typing import NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Ints, Rows
from kschedctl.api.times import microseconds
from kschedctl.errors import InputError

UID_BYTES = 16
NO_UID = "00000000-0000-0000-0000-000000000000"
_UIDS = re.compile(r"(?:(?:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})?\n)*+")
_TIMES = re.compile(r"(?:(?:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)?\n)*+", re.ASCII)
NEVER, LATEST = -1, 253402300799
"""Seconds since 1970 that stand for no time, and those of the end of the year 9999."""
NO_TIME = 2**63 - 1
"""In microseconds: after all times."""


class TextColumn(Protocol):
    """A text for each of P rows, the empty one for none."""

    def of(self, row: int) -> str: ...
    def texts(self) -> list[str]: ...
    def take(self, rows: Rows) -> Self: ...


class Texts(NamedTuple):
    """``codes`` (P,) index the distinct ``values``."""

    codes: Ints
    values: Sequence[str]

    def of(self, row: int) -> str:
        return self.values[int(self.codes[row])]

    def texts(self) -> list[str]:
        return [self.values[code] for code in self.codes.tolist()]

    def take(self, rows: Rows) -> Texts:
        return Texts(self.codes[rows], self.values)


class Times(NamedTuple):
    """``seconds`` (P,) since 1970, -1 for none; as texts, 2026-01-31T12:00:00Z."""

    seconds: npt.NDArray[np.int64]

    def of(self, row: int) -> str:
        return _as_text(int(self.seconds[row]))

    def texts(self) -> list[str]:
        return [_as_text(seconds) for seconds in self.seconds.tolist()]

    def take(self, rows: Rows) -> Times:
        return Times(self.seconds[rows])


class Uids(NamedTuple):
    """``data``: the 16 bytes of each UID, one after the other; zeros for none."""

    data: bytes

    def of(self, row: int) -> str:
        text = self.data[row * UID_BYTES : (row + 1) * UID_BYTES].hex()
        uid = f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
        return "" if uid == NO_UID else uid

    def texts(self) -> list[str]:
        return [self.of(row) for row in range(len(self.data) // UID_BYTES)]

    def take(self, rows: Rows) -> Uids:
        return Uids(np.frombuffer(self.data, np.uint8).reshape(-1, UID_BYTES)[rows].tobytes())


def _as_text(seconds: int) -> str:
    return "" if seconds == NEVER else strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(seconds))


def texts_column(values: Iterable[str]) -> Texts:
    """Texts of which many are the same."""
    values = list(values)
    if len(distinct := set(values)) == 1:  # such as no text at all
        return Texts(np.zeros(len(values), np.int32), tuple(distinct))
    known: dict[str, int] = {}
    codes = [known.setdefault(value, len(known)) for value in values]
    return Texts(np.array(codes, np.int32), tuple(known))


def times_column(values: Sequence[str]) -> TextColumn:
    """Times as the API prints them; other texts stay as they are.

    >>> column = times_column(["2026-01-31T12:00:00Z", ""])
    >>> column.texts()
    ['2026-01-31T12:00:00Z', '']
    >>> times_column(["yesterday"]).texts()
    ['yesterday']
    """
    if not _each_matches(_TIMES, values):
        return texts_column(values)
    try:
        times = np.array([value[:-1] or "NaT" for value in values], "datetime64[s]")
    except ValueError:  # the 31st of June
        return texts_column(values)
    seconds = np.where(np.isnat(times), NEVER, times.astype(np.int64))
    return Times(seconds) if (seconds >= 0).sum() == len(values) - values.count("") else texts_column(values)


def microseconds_of(column: TextColumn, place: Callable[[int], str]) -> Rows:
    """(P,): microseconds since 1970, NO_TIME for none. Raises InputError at the ``place`` of a row that is no time."""
    if isinstance(column, Times):
        return np.where(column.seconds == NEVER, NO_TIME, column.seconds * 10**6)
    texts = column if isinstance(column, Texts) else texts_column(column.texts())
    moments = np.full(len(texts.values), NO_TIME)
    for code, text in enumerate(texts.values):
        try:
            moments[code] = microseconds(text) if text else NO_TIME
        except InputError as error:
            row = int((texts.codes == code).argmax())
            raise InputError(error.what, where=place(row), hint=error.hint) from None
    return moments[texts.codes]


def uids_column(values: Sequence[str]) -> TextColumn:
    """UIDs as the API server makes them; other texts stay as they are.

    >>> uids_column(["d874b460-08fe-4508-a8ae-be43adb0d7b7"]).of(0)
    'd874b460-08fe-4508-a8ae-be43adb0d7b7'
    """
    if not _each_matches(_UIDS, values) or NO_UID in values:
        return texts_column(values)
    return Uids(bytes.fromhex("".join([value or NO_UID for value in values]).replace("-", "")))


def joined(columns: Sequence[TextColumn]) -> TextColumn:
    """One column below the other.

    >>> joined([times_column(["2026-01-31T12:00:00Z"]), times_column(["yesterday"])]).texts()
    ['2026-01-31T12:00:00Z', 'yesterday']
    """
    if all(isinstance(column, Uids) for column in columns):
        return Uids(b"".join([column.data for column in columns]))  # type: ignore[attr-defined]
    if all(isinstance(column, Times) for column in columns):
        return Times(np.concatenate([column.seconds for column in columns]))  # type: ignore[attr-defined]
    return joined_texts([column if isinstance(column, Texts) else texts_column(column.texts()) for column in columns])


def joined_texts(columns: Sequence[Texts]) -> Texts:
    """One below the other."""
    known: dict[str, int] = {}
    codes = [
        np.array([known.setdefault(value, len(known)) for value in column.values], np.int32)[column.codes]
        for column in columns
    ]
    return Texts(np.concatenate(codes), tuple(known))


def _each_matches(lines: re.Pattern[str], values: Sequence[str]) -> bool:
    """Whether the values, each with the end of a line, are such lines."""
    text = "\n".join([*values, ""])
    return text.count("\n") == len(values) and lines.fullmatch(text) is not None
