"""Groups of options, besides those that all commands share."""
