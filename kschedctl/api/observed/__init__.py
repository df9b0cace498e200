"""What tells how scheduling went."""
