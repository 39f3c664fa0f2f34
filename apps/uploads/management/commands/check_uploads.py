"""`manage.py check_uploads`: compares uploads with their files."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError

from apps.core.command import Command as OurCommand
from apps.uploads import files
from apps.uploads.models import Upload


class Command(OurCommand):
    help = (
        "Read the file of every upload and print those that are missing or damaged; the status is "
        "1 if there are any. Restore them from a backup. Files without an upload are no error: the "
        "worker removes them."
    )

    def run(self, **options: Any) -> str:
        checked = failed = 0
        digests = Upload.objects.order_by("sha256").values_list("sha256", flat=True).distinct()
        for digest in digests.iterator():
            checked += 1
            problem = files.problem(digest)
            if problem:
                failed += 1
                self.stdout.write(f"{digest}: {problem}")
        if failed:
            raise CommandError(f"{failed} of {checked} files are missing or damaged")
        return f"{checked} files checked, none damaged"
