"""The resources `…/repos/{repo_slug}/uploads` and `/uploads/{uuid}`."""

from __future__ import annotations

import logging
from typing import Any
from wsgiref.util import FileWrapper

from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from rest_framework.decorators import action

from apps.accounts.authentication import SameOriginSession, TokenAuthentication
from apps.accounts.principal import Principal
from apps.core.access import Level, Permission
from apps.core.conditional import not_modified
from apps.core.errors import Unavailable
from apps.core.files import PIECE, inert_headers
from apps.core.lookup import get_or_missing
from apps.core.operation import operation
from apps.core.parsers import UploadParser
from apps.core.views import ApiViewSet
from apps.repos.access import RepoScoped, access_to
from apps.uploads import actions, files
from apps.uploads.models import Upload
from apps.uploads.rules import IMAGES, TEXT
from apps.uploads.serializers import CreateUpload, UploadRecord, upload_record

FOR_PAGES = [TokenAuthentication, SameOriginSession]
"""Pages embed pictures, which browsers request with the session."""
logger = logging.getLogger(__name__)


class UploadsOfRepoViewSet(RepoScoped):
    """…/repos/{repo_slug}/uploads"""

    schema_tags = ["uploads"]
    parser_classes = [UploadParser]

    @operation(
        Level.READ,
        permission=Permission.WRITE,
        request=CreateUpload,
        response=UploadRecord,
        status=201,
        errors=("unsupported_upload_type", "upload_limit_reached"),
    )
    def create(self) -> dict[str, Any]:
        """Upload a file of at most 10 MiB, to refer to it in a text.

        The upload is removed after a day unless a text of this repository contains its address.
        """
        upload = actions.create_upload(
            access=self.access,
            filename=self.validated_data["filename"],
            content=self.validated_data["content_base64"],
        )
        return upload_record(upload, self.base_url)


class UploadViewSet(ApiViewSet):
    """/uploads/{uuid}"""

    principal: Principal
    schema_tags = ["uploads"]
    lookup_url_kwarg = "uuid"
    lookup_value_converter = "uid"
    upload: Upload

    def load_objects(self) -> None:
        """Load the upload, for the readers of its repository."""
        owners = ("repo__owner_team", "repo__owner_user")
        uploads = Upload.objects.filter(deleted_at=None, repo__deletion=None)
        uploads = uploads.select_related(*owners, "created_by")
        self.upload = get_or_missing(uploads, "upload", uuid=self.kwargs["uuid"])
        access = access_to(self.principal, self.upload.repo)
        access.check_open(writing=False)
        access.require(Level.READ)

    @operation(
        Level.NONE, takes_limited=True, response=UploadRecord, errors=("forbidden", "team_inactive")
    )
    def retrieve(self) -> dict[str, Any]:
        """Read an upload's record."""
        return upload_record(self.upload, self.base_url)

    @action(detail=True, methods=["get"], authentication_classes=FOR_PAGES)
    @operation(
        Level.NONE, takes_limited=True, media_type="*/*", errors=("forbidden", "team_inactive")
    )
    def content(self) -> HttpResponseBase:
        """Read the bytes of an upload.

        Pictures (PNG, JPEG, GIF, WebP) are displayed, all other types are attachments. Text of any
        kind has the type `text/plain`.
        """
        return content_response(self.http_request, self.upload)


def content_response(request: HttpRequest, upload: Upload) -> HttpResponseBase:
    """The bytes, in pieces; 304 if If-None-Match matches. The caller has checked read access."""
    headers = headers_of(upload)
    if answer := not_modified(request, headers["ETag"], headers):
        return answer
    try:
        file = files.open_file(upload.sha256)
    except FileNotFoundError:
        logger.error("The file of upload %s is missing: %s", upload.uuid, upload.sha256)
        raise Http404 from None
    except OSError as error:
        logger.error("The file of upload %s cannot be read: %s", upload.uuid, error)
        text = "Files cannot be read at the moment. Try again later."
        raise Unavailable("unavailable", text, headers={"Retry-After": "60"}) from error
    headers["Content-Length"] = str(upload.size)
    if request.method == "HEAD":
        file.close()
        return HttpResponse(headers=headers)
    return StreamingHttpResponse(FileWrapper(file, PIECE), headers=headers)


def headers_of(upload: Upload) -> dict[str, str]:
    """Headers: images are displayed, all else is an attachment; proxies may not transform it."""
    charset = "; charset=utf-8" if upload.content_type == TEXT else ""
    is_attachment = upload.content_type not in IMAGES
    headers = inert_headers(
        f"{upload.content_type}{charset}", upload.filename, is_attachment=is_attachment
    )
    return {
        **headers,
        "Cache-Control": f"{headers['Cache-Control']}, no-transform",
        "ETag": f'"{upload.sha256}"',
    }
