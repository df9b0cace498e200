"""Compilation of syntax trees to programs: type checking, planning, cost.

Upstream: cel-go's checker and interpreter (v0.26).
"""
