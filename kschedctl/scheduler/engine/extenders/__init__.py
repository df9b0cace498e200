"""HTTP extenders: their settings, calls and answers."""
