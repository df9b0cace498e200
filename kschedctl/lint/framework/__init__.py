"""What a rule is, and the context that it looks at."""
