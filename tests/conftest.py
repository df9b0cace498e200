"""Settings of the whole suite. ``--hypothesis-profile thorough`` tries far more random clusters."""

from __future__ import annotations

from hypothesis import settings

pytest_plugins = ["command_line", "opened_reports"]

settings.register_profile("suite", deadline=None, max_examples=200, print_blob=True)
settings.register_profile("thorough", settings.get_profile("suite"), max_examples=5000)
settings.load_profile("suite")
