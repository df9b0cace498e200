"""What the scheduler makes of changes, and which plugins hear of them."""
