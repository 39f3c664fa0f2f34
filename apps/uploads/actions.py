"""The action that stores an upload. It records no event; texts that refer to the upload do."""

from __future__ import annotations

import hashlib
import logging
from contextlib import suppress

from apps.core.access import Level
from apps.core.errors import ApiError, Unavailable, is_storage_full
from apps.core.locks import hold
from apps.core.transactions import final_transaction
from apps.repos.access import RepoAccess
from apps.uploads import files, rules
from apps.uploads.models import Upload, remove_file_without_row

logger = logging.getLogger(__name__)


def create_upload(*, access: RepoAccess, filename: str, content: bytes) -> Upload:
    """Store a file for the readers of the repository. Every reader may.

    Errors: 413, 422 `unsupported_upload_type`, 409 `repo_archived`, 429 `upload_limit_reached`, 503
    if the storage fails. Locks the repository after the bytes are written.
    """
    access.require_change(Level.READ)
    rules.check_size(len(content))
    upload = Upload(
        created_by=access.user,
        filename=filename,
        content_type=rules.find_type(filename, content),
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
    )
    try:
        return _store(access, upload, content)
    except ApiError:
        with suppress(OSError):  # the worker will remove it
            remove_file_without_row(upload.sha256)
        raise
    except OSError as error:
        if is_storage_full(error):
            raise
        logger.error("An upload could not be stored: %s", error)
        text = "Files cannot be stored at the moment. Try again later."
        raise Unavailable("unavailable", text, headers={"Retry-After": "60"}) from error


def _store(access: RepoAccess, upload: Upload, content: bytes) -> Upload:
    """Write the file, then the row. No lock is held while the file is written, which may take long
    in a bucket.
    """
    files.save(upload.sha256, content)
    try:
        return _add(access, upload)
    except FileNotFoundError:  # removed since it was written, because it had no row yet
        files.save(upload.sha256, content)
        return _add(access, upload)


@final_transaction
def _add(access: RepoAccess, upload: Upload) -> Upload:
    """Save the row. The file's lock prevents the removal of the file meanwhile."""
    upload.repo = access.locked()
    hold(f"uploads of person {access.user.pk}")
    rules.check_daily_limit(access.user, upload.size)
    hold(files.lock_name(upload.sha256))
    files.check_stored(upload.sha256)
    upload.save(force_insert=True)
    return upload
