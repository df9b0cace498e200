"""Objects that show how components run and how scheduling went: command lines, events, leases, conditions."""
