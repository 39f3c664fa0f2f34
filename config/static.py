"""Files of pages under names that tell what is in them, so that browsers keep them for good.

`collect` makes them in `DATA_DIR/static`, compressed. Where it was not called, and for files of
others, such as those of Django's admin, the plain names do.
"""

from __future__ import annotations

from django.core.management import call_command
from whitenoise.storage import CompressedManifestStaticFilesStorage

OF_OTHERS = ["admin/*", "rest_framework/*"]


class HashedStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc] # without types
    """Knows the names that `collect` gave; scripts load each other by these as well."""

    support_js_module_import_aggregation = True

    def stored_name(self, name: str) -> str:
        """The name with what is in it, or the plain one."""
        known: dict[str, str] = self.hashed_files
        return known.get(self.hash_key(self.clean_name(name)), name)


def collect() -> None:
    """Make the files as they are now. What older pages name stays."""
    call_command("collectstatic", verbosity=0, interactive=False, ignore_patterns=OF_OTHERS)
