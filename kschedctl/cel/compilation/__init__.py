"""Syntax to a program: checked, planned, its cost counted. Upstream: cel-go's checker and interpreter (v0.26)."""
