"""`demo`: a short tour of the embedded demo cluster."""
