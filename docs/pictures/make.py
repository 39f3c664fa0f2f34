"""Takes the pictures of README anew, with the demo: `.venv/bin/python docs/pictures/make.py`.

It needs what tests need and, to make them small, Pillow:
`python3 -m pip --python .venv/bin/python install pillow`.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
from pathlib import Path

import django
from PIL import Image

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))
PASSWORD = "for-pictures-alone"  # noqa: S105 - of a server that ends with this script
LOAD = f"""
from apps.accounts.models import User
from config import demo
demo.load()
alice = User.objects.get(username="alice")
alice.set_password({PASSWORD!r})
alice.save()
"""
PICTURES = {"pull": ("pulls/5", 880), "thread": ("threads/8", 860)}
"""Pages of the repository, each with the height of its picture."""


def main() -> None:
    """Start a server with the demo, sign in and take each picture."""
    os.environ |= {"DJANGO_SETTINGS_MODULE": "tests.settings"}
    django.setup()
    from tests.server import Server
    from tests.web.chromium import chromium, new_page

    with tempfile.TemporaryDirectory() as folder, Server(Path(folder)) as server:
        server.run(LOAD)
        with chromium(Path(folder)) as browser, new_page(browser, server.url) as page:
            page.goto("/signin")
            page.get_by_label("Username").fill("alice")
            page.get_by_label("Password").fill(PASSWORD)
            page.get_by_role("main").get_by_role("button", name="Sign in").click()
            page.wait_for_url(f"{server.url}/")
            for name, (path, height) in PICTURES.items():
                page.set_viewport_size({"width": 1280, "height": height})
                page.goto(f"/teams/acme/tide-table/{path}")
                page.get_by_text("Live", exact=True).wait_for()
                picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
                small = picture.quantize(256, dither=Image.Dither.NONE)
                small.save(HERE / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
