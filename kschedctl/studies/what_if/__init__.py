"""What the questions that change a cluster share: pods placed until nothing moves, and what came of it."""
