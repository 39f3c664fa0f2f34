"""`manage.py check_uploads`: compares uploads with their files."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError

from apps.core.command import Command as OurCommand
from apps.uploads import files
from apps.uploads.models import Upload


class Command(OurCommand):
    help = (
        "Read the file of every upload and say which are missing or damaged; the status is 1 if "
        "any is. They cannot be mended: restore them from a backup. Files that no upload has are "
        "no fault: the worker removes them."
    )

    def run(self, **options: Any) -> str:
        looked = lost = 0
        found = Upload.objects.order_by("sha256").values_list("sha256", flat=True).distinct()
        for digest in found.iterator():
            looked += 1
            problem = files.problem(digest)
            if problem:
                lost += 1
                self.stdout.write(f"{digest}: {problem}")
        if lost:
            raise CommandError(f"{lost} of {looked} files are missing or damaged")
        return f"{looked} files looked at, all whole"
