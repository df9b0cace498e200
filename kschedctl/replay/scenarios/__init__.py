"""The steps of what-if scenarios. Read `scenario` first; the other modules have one function for each step."""
