"""The text of an expression to its syntax, with macros expanded. Upstream: github.com/google/cel-go/parser (v0.26)."""
