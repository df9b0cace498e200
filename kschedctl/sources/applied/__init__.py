"""Which files of a repository are applied together, and which documents are patches or test data instead of objects."""
