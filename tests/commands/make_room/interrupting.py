"""Press Ctrl-C in the middle of a search."""

from __future__ import annotations

from collections.abc import Callable


class Interrupting:
    """Ctrl-C after so many plans."""

    def __init__(self, after: int) -> None:
        self.left = after

    def begin(self, what: str, total: int) -> Callable[[int], None]:
        return self.done

    def done(self, number: int) -> None:
        self.left -= number
        if not self.left:
            raise KeyboardInterrupt
