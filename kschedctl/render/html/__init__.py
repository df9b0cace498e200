"""Documents as one HTML file that needs nothing else: no network, a strict policy, no text taken for markup."""
