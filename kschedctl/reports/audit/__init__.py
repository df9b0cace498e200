"""What an audit says: each section a document of its own, and all of them together."""
