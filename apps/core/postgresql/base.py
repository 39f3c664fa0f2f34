"""Django's backend for PostgreSQL, with an end to waiting for a server that is away."""

from __future__ import annotations

from typing import Any

from django.db.backends.postgresql import base

from apps.core.postgresql.outage import outage


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection to PostgreSQL."""

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        with outage.one_at_a_time():
            try:
                return super().get_new_connection(conn_params)
            except self.Database.OperationalError:
                if not self._has_full_pool():
                    outage.begin()
                raise

    def _has_full_pool(self) -> bool:
        """Whether others use all connections that there may be: the server is not away then."""
        if self.pool is None:
            return False
        stats = self.pool.get_stats()
        return bool(stats["pool_size"] >= stats["pool_max"])
