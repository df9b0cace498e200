"""Plots that several pages have."""
