"""Analyses that several rules share: similar names, placement fields, node requirements, and facts about a cluster."""
