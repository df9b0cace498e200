"""Extenders of the scheduler, asked over HTTP, or answered from what they said before."""
