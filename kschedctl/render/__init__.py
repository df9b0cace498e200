"""The rendering of reports: as text for terminals, Markdown, HTML, CSV, JSON, YAML, plots, and formats for CI.

Read `page` first: it has the blocks of which the page of a report consists. `tables`, `sections`, `fixes` and
`unseen_pods` build blocks that several pages share. `renderers` chooses the page of a report and the renderer of a
format. `terminal` prints pages without rich, `folded` with rich, and `columns` chooses the widths of columns.
"""
