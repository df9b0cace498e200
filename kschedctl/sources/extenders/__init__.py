"""Extenders of the scheduler, called over HTTP or replayed from recorded answers."""
