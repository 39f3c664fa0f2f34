"""Backups of an installation, by `manage.py backup`, and their restoration.

A backup is a folder: `database.sqlite3` or `database.dump`, `repositories`, `uploads`, `files` with
the other files of DATA_DIR, and `manifest.json`, written last. Without it the backup is incomplete.
"""
