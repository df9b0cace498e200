"""Parsing of expressions, with macros expanded. Upstream: github.com/google/cel-go/parser (v0.26)."""
