"""A browser of pending pods for terminals, on Textual (extra ``tui``)."""
