"""From problems to findings: which are reported, which are suppressed or already known, and in which order."""
