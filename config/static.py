"""Files of pages under names that tell what is in them, so that browsers keep them for good.

`collect` makes them in `DATA_DIR/static`, compressed, and of our scripts one. Where it was not
called, and for files of others, such as those of Django's admin, the plain names do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from django.core.files.base import ContentFile
from django.core.files.storage import InMemoryStorage
from django.core.management import call_command
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.storage import CompressedManifestStaticFilesStorage

from apps.core.files import pieces_of

OF_OTHERS = ["admin/*", "rest_framework/*"]
SCRIPT = "js/main.js"
IMPORT = re.compile(r'^import .*"\./(.+)";\n', re.MULTILINE)


class StaticFiles(WhiteNoiseMiddleware):  # type: ignore[misc] # without types
    """Sends the files in pieces under ASGI as well, where WhiteNoise's own answer makes Django warn
    of each file that is read as a whole.
    """

    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponseBase:
        """The answer for a file, as WhiteNoise's base class has it."""
        told = static_file.get_response(request.method, request.META)
        headers, status = dict(told.headers), int(told.status)
        if told.file is not None:
            pieces = pieces_of(told.file, request)
            return StreamingHttpResponse(pieces, status=status, headers=headers)
        response = HttpResponse(status=status, headers=headers)
        if "Content-Type" not in headers:
            del response["Content-Type"]
        return response


class HashedStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc] # without types
    """Knows the names that `collect` gave. That of the script is one file with all it imports."""

    def post_process(self, paths: dict[str, Any], **options: Any) -> Iterator[Any]:
        """As Django calls it: `paths` has a storage and a name for each file."""

        def read(name: str) -> str:
            storage, path = paths[name]
            with storage.open(path) as file:
                return str(file.read().decode())

        if SCRIPT in paths:
            made = InMemoryStorage()
            made.save(SCRIPT, ContentFile(joined(SCRIPT, read, set()).encode()))
            paths = {**paths, SCRIPT: (made, SCRIPT)}
        yield from super().post_process(paths, **options)

    def stored_name(self, name: str) -> str:
        """The name with what is in it, or the plain one."""
        known: dict[str, str] = self.hashed_files
        return known.get(self.hash_key(self.clean_name(name)), name)


def joined(name: str, read: Callable[[str], str], done: set[str]) -> str:
    """A module after those that it imports and that are not `done`, as one module.

    The names that they declare are shared: twice the same is an error in the browser.
    """
    done.add(name)
    text = read(name)
    wanted = [f"{name.rpartition('/')[0]}/{one}" for one in IMPORT.findall(text)]
    before = [joined(one, read, done) for one in wanted if one not in done]
    return "".join([*before, IMPORT.sub("", text).replace("\nexport ", "\n")])


def collect() -> None:
    """Make the files as they are now. What older pages name stays."""
    call_command("collectstatic", verbosity=0, interactive=False, ignore_patterns=OF_OTHERS)
