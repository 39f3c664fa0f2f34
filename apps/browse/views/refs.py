"""`…/branches` and `…/tags`."""

from __future__ import annotations

from typing import Any

from django.http.response import HttpResponseBase

from apps.browse import refs
from apps.browse.filters import BranchFilterSet, TagFilterSet
from apps.browse.names import pulls_of_code
from apps.browse.serializers.refs import (
    BranchRecord,
    SingleBranchRecord,
    TagRecord,
    branch_record,
    protection_of_branch_record,
    tag_record,
)
from apps.core.access import Level
from apps.core.conditional import by_body
from apps.core.operation import operation
from apps.repos.access import RepoScoped
from apps.repos.models import BRANCHES, TAGS, Ref
from apps.repos.models.ref import short_name


class BranchViewSet(RepoScoped):
    """…/branches, …/branches/{branch}"""

    queryset = Ref.objects.all()
    filterset_class = BranchFilterSet
    schema_tags = ["branches"]
    lookup_url_kwarg = "branch"
    lookup_value_converter = "path"
    ref: Any

    def load_objects(self) -> None:
        """Load the branch that the path names."""
        if "branch" in self.kwargs:
            rows = refs.list_branches(self.repo)
            self.ref = refs.get_ref(rows, BRANCHES + self.kwargs["branch"], "branch")

    @operation(Level.READ, response=BranchRecord, conditional=True)
    def list(self) -> HttpResponseBase:
        """List the branches of a repository.

        Of the open pulls from a branch the ten oldest are named, and of a subject the first 1,000
        characters. What a commit says is null until the server has read it, some seconds after an
        upgrade.
        """
        page = self.paginate(refs.list_branches(self.repo))
        patterns = refs.protected_patterns(self.repo)
        names = [short_name(ref.full_name) for ref in page]
        pulls = pulls_of_code().open_numbers(self.repo, names)
        default = self.repo.default_branch
        records = [branch_record(ref, default, patterns, pulls) for ref in page]
        return by_body(self.http_request, self.get_paginated_response(records).data)

    @operation(Level.READ, response=SingleBranchRecord, conditional=True)
    def retrieve(self) -> HttpResponseBase:
        """Read a branch, and how far it is from the default branch.

        `ahead_by` and `behind_by` are null where git cannot count within 5 seconds. A name with
        `/` may have it as `%2F` as well.
        """
        repo, ref = self.repo, self.ref
        name = self.kwargs["branch"]
        own = refs.protections_of(repo, name)
        pulls = pulls_of_code().open_numbers(repo, [name])
        ahead, behind = refs.ahead_and_behind(repo, ref)
        record: dict[str, Any] = {
            **branch_record(ref, repo.default_branch, [one.branch for one in own], pulls),
            "ahead_by": ahead,
            "behind_by": behind,
            "protections": [protection_of_branch_record(one) for one in own],
        }
        return by_body(self.http_request, record)


class TagViewSet(RepoScoped):
    """…/tags, …/tags/{tag}"""

    queryset = Ref.objects.all()
    filterset_class = TagFilterSet
    schema_tags = ["tags"]
    lookup_url_kwarg = "tag"
    lookup_value_converter = "path"
    ref: Any

    def load_objects(self) -> None:
        """Load the tag that the path names."""
        if "tag" in self.kwargs:
            rows = refs.list_tags(self.repo)
            self.ref = refs.get_ref(rows, TAGS + self.kwargs["tag"], "tag")

    @operation(Level.READ, response=TagRecord, conditional=True)
    def list(self) -> HttpResponseBase:
        """List the tags of a repository.

        Of a message the first 1,000 characters are shown, and `message_truncated` says that there
        are more. A tag of a file or a folder has no commit. What a tag leads to is null until the
        server has read it, some seconds after an upgrade.
        """
        page = self.page_of(refs.list_tags(self.repo), tag_record)
        return by_body(self.http_request, page.data)

    @operation(Level.READ, response=TagRecord, conditional=True)
    def retrieve(self) -> HttpResponseBase:
        """Read a tag, with its whole message.

        A message of more than 1 MiB is cut, and `message_truncated` says so. A name with `/` may
        have it as `%2F` as well.
        """
        record = tag_record(self.ref)
        if record["message_truncated"]:
            record |= refs.whole_message(self.repo, self.ref)
        return by_body(self.http_request, record)
