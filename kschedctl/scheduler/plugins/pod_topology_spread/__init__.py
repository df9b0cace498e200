"""Topology spread constraints: what they count, and filtering and scoring by it."""
