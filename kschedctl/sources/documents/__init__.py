"""Reading of YAML and JSON files that users name, and the position of each field in them.

Read `files` (finding and opening files) first, then `documents` (their documents), `json_documents` and
`yaml_documents` (the parsers), `place` and `positions` (where something is, for messages), and `yaml_edits`
(corrections of fields).
"""
