#!/usr/bin/env python
"""Django's command line for Guildhall: `./manage.py help` lists what it can do."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except KeyboardInterrupt:
        sys.exit(130)  # as shells report Ctrl-C


if __name__ == "__main__":
    main()
