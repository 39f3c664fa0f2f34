"""`…/pulls/{number}/comments`: comments on lines."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from apps.core.access import Level, Permission
from apps.core.operation import operation
from apps.core.statements import values_of
from apps.pulls import actions
from apps.pulls.filters import CommentFilterSet
from apps.pulls.models import Pull
from apps.pulls.queries import comments_of, get_pull
from apps.pulls.serializers import CreateComment
from apps.threads.models import ANCHORED_ROW, Reply
from apps.threads.serializers import RenderQuery, ReplyRecord, StoredHtml, reply_record
from apps.threads.views import BodyViewSet


class CommentViewSet(BodyViewSet):
    """/{owner}/repos/{repo_slug}/pulls/{number}/comments"""

    schema_tags = ["pulls"]
    queryset = Reply.objects.all()
    filterset_class = CommentFilterSet
    html = StoredHtml(Reply.objects)
    pull: Pull

    def load_objects(self) -> None:
        self.pull = get_pull(self.repo, self.kwargs["number"])

    @operation(Level.READ, response=ReplyRecord, query=RenderQuery, errors=("invalid_path",))
    def list(self) -> Response:
        """List a pull's comments on lines, by path, line and number.

        The path and line are those of the commit that was commented. The replies to comments are in
        the list of replies of the pull's thread.
        """
        number = self.pull.number
        rows = comments_of(self.pull).values_list(*ANCHORED_ROW.values())
        return self.page_with_html(self.page_of(rows, lambda row: reply_record(row, number)))

    @operation(
        Level.READ,
        permission=Permission.WRITE,
        request=CreateComment,
        response=ReplyRecord,
        status=201,
        errors=(
            "commit_not_found",
            "invalid_path",
            "line_not_found",
            "not_a_file",
            "review_not_found",
            "too_expensive",
        ),
    )
    def create(self) -> dict[str, Any]:
        """Comment on lines of a version of a pull.

        The comment is a reply in the pull's thread. Its `anchor` says which lines it is about, and
        where they are at the current head.
        """
        reply = actions.create_comment(access=self.access, pull=self.pull, **self.validated_data)
        return reply_record(values_of(reply, ANCHORED_ROW), self.pull.number)
