"""Garbage collection while the user is idle. It blocks everything for a moment (0.2 s for 5,000 nodes)."""

from __future__ import annotations

import gc
from time import monotonic

from textual.app import App
from textual.events import Event, Key

IDLE_SECONDS = 3.0
"""The number of seconds without a keystroke after which garbage is collected."""


class TidyApp(App[None]):
    """An application that collects garbage when the user is idle.

    Subclasses set `untidy` after dropping something large, and call `tidy` every IDLE_SECONDS while nothing is
    computed.
    """

    def __init__(self) -> None:
        super().__init__(ansi_color=True)
        self.untidy, self.typed_at = False, monotonic()

    async def on_event(self, event: Event) -> None:
        """Record the time of the latest keystroke."""
        if isinstance(event, Key):
            self.typed_at = monotonic()
        await super().on_event(event)

    def tidy(self) -> None:
        """Collect garbage if there may be any and no key was pressed for IDLE_SECONDS."""
        if self.untidy and monotonic() - self.typed_at > IDLE_SECONDS:
            self.untidy = False
            gc.collect()
