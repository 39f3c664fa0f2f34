"""`…/archive`."""

from __future__ import annotations

from functools import partial

from django.http.response import HttpResponseBase

from apps.browse.archives import find_archive
from apps.browse.downloads import KINDS, archive_response
from apps.browse.names import path_in_query, revision
from apps.core.access import Level
from apps.core.conditional import by_names
from apps.core.operation import operation
from apps.core.query import Base64Parameter, QuerySerializer, TextParameter
from apps.core.serializers import StrictChoiceField
from apps.repos.access import RepoScoped
from apps.repos.http.transfer_slots import caller_of


class ArchiveQuery(QuerySerializer):
    ref = TextParameter(required=False)
    format = StrictChoiceField([*KINDS], default="tar.gz")
    path = TextParameter(required=False)
    path_base64 = Base64Parameter(required=False)


class ArchiveViewSet(RepoScoped):
    """…/repos/{repo_slug}/archive"""

    schema_tags = ["archives"]

    @operation(
        Level.READ,
        query=ArchiveQuery,
        media_type="*/*",
        errors=(
            "archive_too_large",
            "invalid_path",
            "invalid_ref",
            "not_a_directory",
            "too_expensive",
        ),
    )
    def retrieve(self) -> HttpResponseBase:
        """Read all files of a commit as an archive.

        All of it is in a folder that is called as the repository and the first twelve digits of
        the commit. With `path` it has only what is below that directory, under its full path.
        `.gitattributes` of the commit say what is left out (`export-ignore`) and where the commit
        is written into files (`export-subst`): there, no branch or tag is named.

        An archive of more than 100,000 files and directories or 2 GiB is 422 `archive_too_large`.
        One that is not sent within 60 seconds, or that git cannot write to its end, is broken off
        without the end of the answer. Each caller has one at a time. The bytes of `format=tar`
        stay the same, and have an `ETag`; those of the others may change.
        """
        sent = self.validated_query
        path = path_in_query(self.http_request, sent)
        wanted, form = revision(self.repo, sent.get("ref")), sent["format"]
        who = caller_of(self.http_request, self.principal)
        find = partial(find_archive, self.repo, wanted, path, who)

        def answer() -> HttpResponseBase:
            return archive_response(self.http_request, self.principal, find(), form)

        if form == "tar":
            return by_names(self.http_request, (wanted.sha,), answer, check=find)
        return answer()
