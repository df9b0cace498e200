"""How structs are laid out as rows of a table: a Column beside each field that is told."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

import msgspec


class Tone(Enum):
    """What a piece of text means; each way of showing it chooses a colour or a mark for that."""

    PLAIN = auto()
    STRONG = auto()
    GOOD = auto()
    BAD = auto()
    WARNING = auto()
    FAINT = auto()
    CODE = auto()
    VERBATIM = auto()


class Column(msgspec.Struct, frozen=True):
    """``name``: lower case, or a name as it is; beside a field that of the field if empty, a blank for none.

    ``right``: numbers. ``keep``: a name, better left in one piece. ``beneath``: the word before a cell that has to
    stand beneath the one at its left, where it needs one. ``verbatim``: ``name`` is somebody's own, in whatever case.

    Beside a field, as ``Annotated[int, Column("pods")]``, it also says how values become text: numbers by the format
    ``form``, of a tuple the first few, ``every`` one, one beneath the other (``lines``) or how many there are
    (``counted``); numbers only ``above`` something; ``words`` and ``tones`` are of some texts, ``tone`` is that of all
    others. ``place``: those with less stand more to the left, else in the order of the fields. ``narrow`` terminals
    have it beneath the first cell. ``csv``: its name there; ``csv_only``: it is in no table for people.
    """

    name: str = ""
    right: bool = False
    keep: bool = False
    beneath: str = ""
    verbatim: bool = False
    form: str = ","
    every: bool = False
    lines: bool = False
    counted: bool = False
    above: float | None = None
    words: Mapping[str, str] = msgspec.field(default_factory=dict)
    tone: Tone = Tone.PLAIN
    tones: Mapping[str, Tone] = msgspec.field(default_factory=dict)
    place: int = 0
    narrow: bool = False
    csv: str = ""
    csv_only: bool = False
