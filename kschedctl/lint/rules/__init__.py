"""The lint rules, one module or folder per family.

Each rule is a ``Rule`` constant right below the function that finds its problems. ``kschedctl.lint.catalogue`` collects
these constants.
"""
