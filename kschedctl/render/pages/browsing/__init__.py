"""Pages that the browser shows besides explanations."""
