"""A real switch with real collectives on one machine, and ringscope listening to it.

See `rooms` for where it runs, `switch` and `hosts` for what is built, `cases` for what runs there,
`scene` for how one case becomes a folder of captures and truths, `judging` for the comparison.
"""
