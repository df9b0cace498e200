"""Corrections of what lint finds, as edits of fields."""
