"""Static files with a hash in their names, which browsers can cache for good.

`collect` writes them to `DATA_DIR/static`, compressed, with all scripts joined into one. Without
it, and for files of packages such as Django's admin, the plain names work as well. Files of other
versions stay, and each server finds them: nodes of two versions may serve at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import Any
from wsgiref.util import FileWrapper

from django.core.files.base import ContentFile
from django.core.files.storage import InMemoryStorage
from django.core.management import call_command
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.storage import CompressedManifestStaticFilesStorage

from apps.core.files import PIECE

OF_PACKAGES = ["admin/*", "rest_framework/*"]
SCRIPT = "js/main.js"
IMPORT = re.compile(r'^import .*"\./(.+)";\n', re.MULTILINE)
HASHED = re.compile(r"/static/((?:[\w-]+/)*[\w-]+(?:\.[\w-]+)*\.[0-9a-f]{12}\.[a-z0-9]+)", re.ASCII)
"""The address of a file with a hash in its name. It cannot lead out of the folder."""


class StaticFiles(WhiteNoiseMiddleware):  # type: ignore[misc] # without types
    """Finds files that were collected after the start, by another version, and sends files in
    larger pieces than the 4 KiB of Django's `FileResponse`.
    """

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        url = request.path_info
        if url not in self.files and (match := HASHED.fullmatch(url)):
            path = os.path.join(self.static_root, match[1])
            if os.path.isfile(path):
                self.add_file_to_dictionary(url, path)
        response: HttpResponseBase = super().__call__(request)
        return response

    def immutable_file_test(self, path: str, url: str) -> bool:
        """Whether browsers may store the file for good, also one of another version."""
        return HASHED.fullmatch(url) is not None

    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponseBase:
        """The response for a file, as in WhiteNoise's own class."""
        result = static_file.get_response(request.method, request.META)
        headers, status = dict(result.headers), int(result.status)
        if result.file is not None:
            pieces = FileWrapper(result.file, PIECE)
            return StreamingHttpResponse(pieces, status=status, headers=headers)
        response = HttpResponse(status=status, headers=headers)
        if "Content-Type" not in headers:
            del response["Content-Type"]
        return response


class HashedStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc] # without types
    """Finds the names that `collect` gave. The script is one file with all of its imports."""

    def post_process(self, paths: dict[str, Any], **options: Any) -> Iterator[Any]:
        """Join the script, then call Django's method. `paths` has a storage and a name for each
        file.
        """

        def read(name: str) -> str:
            storage, path = paths[name]
            with storage.open(path) as file:
                return str(file.read().decode())

        if SCRIPT in paths:
            storage = InMemoryStorage()
            storage.save(SCRIPT, ContentFile(joined(SCRIPT, read, set()).encode()))
            paths = {**paths, SCRIPT: (storage, SCRIPT)}
        yield from super().post_process(paths, **options)

    def stored_name(self, name: str) -> str:
        """The name with a hash, or the plain one."""
        names: dict[str, str] = self.hashed_files
        return names.get(self.hash_key(self.clean_name(name)), name)


def joined(name: str, read: Callable[[str], str], done: set[str]) -> str:
    """A module and the modules that it imports, without those in `done`, joined into one.

    They share their names: declaring one twice is an error in the browser.
    """
    done.add(name)
    text = read(name)
    imports = [f"{name.rpartition('/')[0]}/{path}" for path in IMPORT.findall(text)]
    before = [joined(module, read, done) for module in imports if module not in done]
    return "".join([*before, IMPORT.sub("", text).replace("\nexport ", "\n")])


def collect() -> None:
    """Write the current files. Those of other versions stay."""
    call_command("collectstatic", verbosity=0, interactive=False, ignore_patterns=OF_PACKAGES)
