"""`kschedctl schema`: Print the JSON Schema of a document.

Read `command`, then the analysis.
"""
