"""The results database: jobs, their iterations and anomalies, and the last window.

SQLite by default, PostgreSQL by URL. A job's row holds its document and the state of its analysis
as JSON; iterations and anomalies have rows of their own, so that a page or a scrape reads only what
it shows. `migrations` brings a database of an older version up to date when it is opened.
"""
