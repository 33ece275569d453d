"""The results database: jobs, their iterations and anomalies, and the last window.

SQLite by default, PostgreSQL by URL. A job's row holds the short part of its document; the long
part and the state of its analysis, and each iteration and anomaly, have rows of their own, so that
a page or a scrape reads only what it shows, and a turn writes only what changed. `migrations`
brings a database of an older version up to date when it is opened.
"""
