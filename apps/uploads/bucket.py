"""Files of uploads in a bucket of S3, by django-storages. Only used with UPLOADS_URL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from boto3.s3.transfer import S3UploadFailedError, TransferConfig
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from django.conf import settings
from django.core.files import File
from storages.backends.s3 import S3Storage

CLIENT = Config(
    connect_timeout=5,
    read_timeout=20,
    retries={"total_max_attempts": 2, "mode": "standard"},
    # Many servers of this protocol do not know the checksums that are the default.
    request_checksum_calculation="when_required",
    response_checksum_validation="when_required",
)
QUICK = CLIENT.merge(
    Config(connect_timeout=2, read_timeout=3, retries={"total_max_attempts": 1, "mode": "standard"})
)
"""For requests under a lock of the database, on SQLite the lock of all writers."""
# One request for a file, since parts of an interrupted upload would stay in the bucket.
TRANSFER = TransferConfig(multipart_threshold=64 * 1024 * 1024, use_threads=False)
MARK = "installation"
"""The name of the object with the id of the installation."""


@contextmanager
def os_errors() -> Iterator[None]:
    """Raise errors of S3 as `OSError`, as a disk would; a missing object as `FileNotFoundError`."""
    try:
        yield
    except ClientError as error:
        raise (FileNotFoundError if is_missing(error) else OSError)(str(error)) from error
    except (BotoCoreError, S3UploadFailedError) as error:
        raise OSError(str(error)) from error


def is_missing(error: ClientError) -> bool:
    """Whether the object is missing. A missing bucket is another error, except for HEAD."""
    return bool(error.response["Error"]["Code"] in {"404", "NoSuchKey"})


class BucketFile(File):  # type: ignore[type-arg] # not generic at run time
    """The body of an object, read from the network piece by piece."""

    @os_errors()
    def read(self, size: int = -1) -> bytes:
        body: Any = self.file
        return bytes(body.read(None if size < 0 else size))


class UploadBucket(S3Storage):  # type: ignore[misc] # without types
    """Objects below a prefix. S3 makes an object visible when all of it is stored."""

    is_ours = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.options = options

    @cached_property
    def quick(self) -> UploadBucket:
        """The same bucket, which fails if it does not answer within a few seconds."""
        return UploadBucket(**self.options, client_config=QUICK)

    def get_default_settings(self) -> dict[str, Any]:
        defaults: dict[str, Any] = super().get_default_settings()
        return {**defaults, "client_config": CLIENT, "transfer_config": TRANSFER}

    @os_errors()
    def _open(self, name: str, mode: str = "rb") -> File[bytes]:
        return BucketFile(self._object(name).get()["Body"], name)

    @os_errors()
    def _save(self, name: str, content: File[bytes]) -> str:
        self._check_mark()
        return str(super()._save(name, content))

    @os_errors()
    def delete(self, name: str) -> None:
        super().delete(name)

    @os_errors()
    def size(self, name: str) -> int:
        return int(self._object(name).content_length)

    def names(self) -> Iterator[str]:
        """The names of all objects."""
        with os_errors():
            self._check_mark()
            for item in self.bucket.objects.filter(Prefix=self._key("")):
                yield item.key.removeprefix(self._key(""))

    def remove_leftovers(self, age: float) -> int:
        """Nothing: an interrupted upload leaves no object."""
        return 0

    def _key(self, name: str) -> str:
        return f"{self.location}/{name}" if self.location else name

    def _object(self, name: str) -> Any:
        return self.bucket.Object(self._key(name))

    def _check_mark(self) -> None:
        """`OSError` if the prefix belongs to another installation: each would remove the files of
        the other, for which it has no rows. The first one to ask marks it.
        """
        own = Path(settings.DATA_DIR, MARK)
        if self.is_ours or not own.exists():
            return
        mark = self._object(MARK)
        try:
            owner = mark.get()["Body"].read()
        except ClientError as error:
            if not is_missing(error):
                raise
            mark.put(Body=(owner := own.read_bytes()))
        if owner != own.read_bytes():
            raise OSError("The bucket of UPLOADS_URL is that of another installation")
        self.is_ours = True
