"""`schema`: print the JSON Schema of a document. Read `schemas`."""
