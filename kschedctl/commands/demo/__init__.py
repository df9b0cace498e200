"""`demo`: a short tour of the built-in demo cluster."""
