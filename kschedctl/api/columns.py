"""Compact columns of strings: interned texts, timestamps and UIDs. A string is built only on request."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from time import gmtime, strftime
from typing import NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Ints, Rows
from kschedctl.api.times import parse_microseconds
from kschedctl.errors import InputError

UID_BYTES = 16
NO_UID = "00000000-0000-0000-0000-000000000000"
_UIDS = re.compile(r"(?:(?:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})?\n)*+")
_TIMES = re.compile(r"(?:(?:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)?\n)*+", re.ASCII)
NEVER = -1
"""The number of seconds that stands for no time."""
LATEST = 253402300799
"""The end of the year 9999 in seconds since 1970."""
NO_TIME = 2**63 - 1
"""Microseconds that sort after every time."""


class TextColumn(Protocol):
    """A column of P strings, where "" means none."""

    def get_text(self, row: int) -> str:
        """Return the string in a row."""
        ...

    def texts(self) -> list[str]:
        """Return the strings of all rows."""
        ...

    def take(self, rows: Rows) -> Self:
        """Return the column of some rows."""
        ...


class InternedTexts(NamedTuple):
    """A column of strings that are stored once per distinct value."""

    codes: Ints
    """Indices into ``values``, shape (P,)."""
    values: Sequence[str]

    def get_text(self, row: int) -> str:
        """Return the string in a row."""
        return self.values[int(self.codes[row])]

    def texts(self) -> list[str]:
        """Return the strings of all rows."""
        return [self.values[code] for code in self.codes.tolist()]

    def take(self, rows: Rows) -> InternedTexts:
        """Return the column of some rows."""
        return InternedTexts(self.codes[rows], self.values)


class TimeColumn(NamedTuple):
    """A column of timestamps, shown like 2026-01-31T12:00:00Z."""

    seconds: npt.NDArray[np.int64]
    """Seconds since 1970, shape (P,); -1 means none."""

    def get_text(self, row: int) -> str:
        """Return the timestamp in a row."""
        return _format_time(int(self.seconds[row]))

    def texts(self) -> list[str]:
        """Return the timestamps of all rows."""
        return [_format_time(seconds) for seconds in self.seconds.tolist()]

    def take(self, rows: Rows) -> TimeColumn:
        """Return the column of some rows."""
        return TimeColumn(self.seconds[rows])


class UidColumn(NamedTuple):
    """A column of UIDs, stored as 16 bytes each."""

    data: bytes
    """The bytes of all UIDs in a row; zeros mean none."""

    def get_text(self, row: int) -> str:
        """Return the UID in a row. Return "" for a pod without a UID."""
        digits = self.data[row * UID_BYTES : (row + 1) * UID_BYTES].hex()
        uid = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
        return "" if uid == NO_UID else uid

    def texts(self) -> list[str]:
        """Return the UIDs of all rows."""
        return [self.get_text(row) for row in range(len(self.data) // UID_BYTES)]

    def take(self, rows: Rows) -> UidColumn:
        """Return the column of some rows."""
        return UidColumn(np.frombuffer(self.data, np.uint8).reshape(-1, UID_BYTES)[rows].tobytes())


def _format_time(seconds: int) -> str:
    """Format seconds since 1970 as a timestamp, or as "" for no time."""
    return "" if seconds == NEVER else strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(seconds))


def intern_texts(values: Iterable[str]) -> InternedTexts:
    """Build a column of strings that stores each distinct string once."""
    values = list(values)
    distinct_values = set(values)
    if len(distinct_values) == 1:  # a fast path, for example for a column without texts
        return InternedTexts(np.zeros(len(values), np.int32), tuple(distinct_values))
    codes_by_value: dict[str, int] = {}
    codes = [codes_by_value.setdefault(value, len(codes_by_value)) for value in values]
    return InternedTexts(np.array(codes, np.int32), tuple(codes_by_value))


def build_time_column(values: Sequence[str]) -> TextColumn:
    """Build a column of timestamps. If one of the strings is not in the API's format, build a column of strings.

    Timestamps before 1970 are also kept as strings. Empty strings stay empty.

    >>> column = build_time_column(["2026-01-31T12:00:00Z", ""])
    >>> column.texts()
    ['2026-01-31T12:00:00Z', '']
    >>> build_time_column(["yesterday"]).texts()
    ['yesterday']
    """
    if not _do_all_lines_match(_TIMES, values):
        return intern_texts(values)
    try:
        times = np.array([value[:-1] or "NaT" for value in values], "datetime64[s]")
    except ValueError:  # a date that does not exist
        return intern_texts(values)
    if (times < np.datetime64(0, "s")).any():  # times before 1970 could not be told from NEVER
        return intern_texts(values)
    return TimeColumn(np.where(np.isnat(times), NEVER, times.astype(np.int64)))


def convert_column_to_microseconds(column: TextColumn, describe_row: Callable[[int], str]) -> Rows:
    """Convert a column of times to microseconds since 1970, shape (P,), with NO_TIME for empty strings.

    Raises InputError for the first row with an invalid time. ``describe_row`` returns the description of a row for the
    error message.
    """
    if isinstance(column, TimeColumn):
        return np.where(column.seconds == NEVER, NO_TIME, column.seconds * 10**6)
    texts = column if isinstance(column, InternedTexts) else intern_texts(column.texts())
    moments = np.full(len(texts.values), NO_TIME)
    for code, text in enumerate(texts.values):
        try:
            moments[code] = parse_microseconds(text) if text else NO_TIME
        except InputError as error:
            row = int((texts.codes == code).argmax())
            raise InputError(error.what, where=describe_row(row), hint=error.hint) from None
    return moments[texts.codes]


def build_uid_column(values: Sequence[str]) -> TextColumn:
    """Build a column of UIDs, or of strings if one is not in the API server's format.

    >>> build_uid_column(["d874b460-08fe-4508-a8ae-be43adb0d7b7"]).get_text(0)
    'd874b460-08fe-4508-a8ae-be43adb0d7b7'
    """
    # In a UidColumn, NO_UID stands for "", so a pod cannot have it.
    if not _do_all_lines_match(_UIDS, values) or NO_UID in values:
        return intern_texts(values)
    return UidColumn(bytes.fromhex("".join([value or NO_UID for value in values]).replace("-", "")))


def concatenate_columns(columns: Sequence[TextColumn]) -> TextColumn:
    """Concatenate columns of strings.

    If all columns hold UIDs or all hold timestamps, the result keeps this compact form. Otherwise its strings are
    interned.

    >>> concatenate_columns([build_time_column(["2026-01-31T12:00:00Z"]), build_time_column(["yesterday"])]).texts()
    ['2026-01-31T12:00:00Z', 'yesterday']
    """
    if all(isinstance(column, UidColumn) for column in columns):
        return UidColumn(b"".join([column.data for column in columns]))  # type: ignore[attr-defined]
    if all(isinstance(column, TimeColumn) for column in columns):
        return TimeColumn(np.concatenate([column.seconds for column in columns]))  # type: ignore[attr-defined]
    return concatenate_interned_texts(
        [column if isinstance(column, InternedTexts) else intern_texts(column.texts()) for column in columns]
    )


def concatenate_interned_texts(columns: Sequence[InternedTexts]) -> InternedTexts:
    """Concatenate columns of interned strings into one column that stores each distinct string once."""
    codes_by_value: dict[str, int] = {}
    codes = []
    for column in columns:
        new_codes = [codes_by_value.setdefault(value, len(codes_by_value)) for value in column.values]
        codes.append(np.array(new_codes, np.int32)[column.codes])
    return InternedTexts(np.concatenate(codes), tuple(codes_by_value))


def _do_all_lines_match(pattern: re.Pattern[str], values: Sequence[str]) -> bool:
    """Return whether each value followed by a newline matches the pattern for lines."""
    text = "\n".join([*values, ""])
    return text.count("\n") == len(values) and pattern.fullmatch(text) is not None
