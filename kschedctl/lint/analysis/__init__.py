"""What rules ask of objects and clusters: which names are alike, which nodes fit, what a replay says."""
