"""Garbage collection while the user is idle, since it blocks everything (0.2 s for 5,000 nodes)."""

from __future__ import annotations

import gc
from time import monotonic

from textual.app import App
from textual.events import Event, Key

IDLE_SECONDS = 3.0
"""Seconds without a keystroke after which garbage is collected."""


class TidyApp(App[None]):
    """An application that collects garbage when idle.

    A subclass sets `untidy` after it dropped something large, and calls `tidy` every IDLE_SECONDS while nothing is
    computed.
    """

    def __init__(self) -> None:
        super().__init__(ansi_color=True)
        self.untidy, self.typed_at = False, monotonic()

    async def on_event(self, event: Event) -> None:
        """Record the time of a keystroke."""
        if isinstance(event, Key):
            self.typed_at = monotonic()
        await super().on_event(event)

    def tidy(self) -> None:
        """Collect garbage if there may be some and no key was pressed for IDLE_SECONDS."""
        if self.untidy and monotonic() - self.typed_at > IDLE_SECONDS:
            self.untidy = False
            gc.collect()
