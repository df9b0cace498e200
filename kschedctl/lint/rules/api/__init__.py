"""What the API server refuses, or refuses in another version."""
