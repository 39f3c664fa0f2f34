"""The filters of the lists of branches and tags."""

from __future__ import annotations

from apps.core.filters import OrderingFilter, SearchFilter, StrictFilterSet

REF_ORDERINGS = ("name", "-name", "-updated_at")


class BranchFilterSet(StrictFilterSet):
    search = SearchFilter("Part of a name, ignoring case.")
    ordering = OrderingFilter(REF_ORDERINGS, help_text="The default is `name`.")


class TagFilterSet(StrictFilterSet):
    search = SearchFilter("Part of a name, ignoring case.")
    ordering = OrderingFilter(
        REF_ORDERINGS, help_text="The default is `-updated_at`: what was pushed last comes first."
    )
