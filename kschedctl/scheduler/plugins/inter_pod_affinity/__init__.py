"""Affinity between pods: how often terms are matched in each topology, and filtering by it."""
