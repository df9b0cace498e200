"""What a rule is, what it can look at, and how a field is edited."""
