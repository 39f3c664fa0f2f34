"""The trace of the worker in the database."""

from __future__ import annotations

from django.db import models


class Heartbeat(models.Model):
    """The single row that running workers keep up to date, for `/readyz` of other processes."""

    ONLY = 1
    """Its primary key."""

    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"worker, {self.at}"
