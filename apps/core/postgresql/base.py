"""Django's backend for PostgreSQL, with an end to waiting for a server that is away."""

from __future__ import annotations

from typing import Any

from django.db.backends.postgresql import base

from apps.core.postgresql.outage import outage


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection to PostgreSQL."""

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        with outage.one_at_a_time():
            failures = self._failures()
            try:
                return super().get_new_connection(conn_params)
            except self.Database.OperationalError:
                if not self._has_full_pool() or self._failures() > failures:
                    outage.begin()
                raise

    def _has_full_pool(self) -> bool:
        """Whether the pool has all connections that there may be. Either others use them, or, if
        attempts fail meanwhile, the pool still counts connections that have been lost.
        """
        if self.pool is None:
            return False
        stats = self.pool.get_stats()
        return bool(stats["pool_size"] >= stats["pool_max"])

    def _failures(self) -> int:
        """The number of attempts of the pool to connect that have failed so far."""
        return 0 if self.pool is None else self.pool.get_stats().get("connections_errors", 0)
