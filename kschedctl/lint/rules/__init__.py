"""One file a family of rules; each ends with its RULES."""
