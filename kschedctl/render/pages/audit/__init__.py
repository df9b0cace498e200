"""The pages of an audit: a file for each section."""
