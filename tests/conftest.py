"""Settings of the whole suite."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("suite", deadline=None, max_examples=200, print_blob=True)
settings.load_profile("suite")
