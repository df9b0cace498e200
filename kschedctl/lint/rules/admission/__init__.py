"""Rules about what admission plugins refuse."""
