"""What the browser shows besides explanations."""
