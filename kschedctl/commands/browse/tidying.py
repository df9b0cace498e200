"""Garbage is looked for while nobody types, since that stops everything: 0.2 s with 5,000 nodes."""

from __future__ import annotations

import gc
from time import monotonic

from textual.app import App
from textual.events import Event, Key

PAUSE = 3.0
"""Seconds without a key after which garbage is collected."""


class TidyApp(App[None]):
    """``untidy``: something large was thrown away. A subclass calls ``tidy`` every PAUSE, while nothing is computed."""

    def __init__(self) -> None:
        super().__init__(ansi_color=True)
        self.untidy, self.typed_at = False, monotonic()

    async def on_event(self, event: Event) -> None:
        if isinstance(event, Key):
            self.typed_at = monotonic()
        await super().on_event(event)

    def tidy(self) -> None:
        if self.untidy and monotonic() - self.typed_at > PAUSE:
            self.untidy = False
            gc.collect()
