"""A repository, a team and people with hostile names and texts, for every page."""

from __future__ import annotations

from tests.web.page_client import PASSWORD

HOSTILE = '<script>raise()</script>"><img src=x onerror=raise()>\u202e' + "W" * 200
BRANCH = 'refs/heads/<script>raise()</script>"><img/src=x/onerror=raise()>' + "W" * 180
DATA = f"""
import json
from datetime import timedelta
from django.utils import timezone
from apps.accounts.access import access_to_user
from apps.accounts.actions import create_invite, create_token, create_user
from apps.accounts.principal import Principal
from apps.accounts.proofs import address_proof, reset_proof
from apps.pulls.actions import create_pull
from apps.repos.access import access_to
from apps.repos.actions import add_approver, create_fork, create_protection, create_repo
from apps.site.models import SiteSettings
from apps.teams.actions import create_team
from apps.threads.actions import create_reply, create_thread
from tests.browse.code import code_of, push

SiteSettings.load()
SiteSettings.objects.update(
    signup_invite_creators="users", signups_require_invite=False, rate_limits_enabled=False
)
people = [
    create_user(principal=None, username=f"Ada{{n}}", password={PASSWORD!r}) for n in range(4)
]
create_user(principal=None, username="Sam1", password={PASSWORD!r}, is_staff=True)
tokens = [create_token(principal=None, owner=ada, name="W" * 255)[0] for ada in people]
ada, later = people[0], timezone.now() + timedelta(days=1)
space = access_to_user(Principal(ada), ada)
repo = create_repo(access=space, name="Api", slug="a" * 100, visibility="public")
access = access_to(Principal(ada), repo)
hostile = {{"title": {HOSTILE!r}, "body": {HOSTILE!r}}}
thread = create_thread(access=access, kind="issue", priority="urgent", **hostile)
number = None
for level in range(9):
    number = create_reply(
        access=access, thread=thread, kind="w" * 30, body={HOSTILE!r}, parent_reply_number=number
    ).number
protection = create_protection(access=access, branch="p" * 200 + "/*")
add_approver(access=access, protection=protection, user=people[1])
reader = Principal(people[1])
create_fork(access=access_to(reader, repo), into=access_to_user(reader, people[1]))
create_pull(access=access, source_branch="b" * 255, target_branch="main", **hostile)
code, name = code_of(repo), {HOSTILE.replace("/", "|")!r}.encode()
files = {{
    name: b"W" * 300 + b"\\n<script>raise()</script>\\n",
    b"W" * 200 + b"/" + name: b"1\\n",
    b"x": b"\\x89PNG\\r\\n\\x1a\\n",
    b"README.md": {HOSTILE!r}.encode() + b"\\n# Read me\\n\\n| a |\\n|---|\\n| b |\\n",
    b"app.py": b"def run():\\n    return 1  # " + b"W" * 300 + b"\\n",
}}
first = code.commit_with(files, message={HOSTILE!r})
files[b"app.py"] = b"def run(number):\\n    return number\\n"
files[b"other.bin"] = b"\\0"
files[b"hidden.txt"] = "a = '\u202eabc\u2069' # \u2069def\\n".encode()
last = code.commit_with(files, first, message={HOSTILE!r} + "\\n\\nText.")
push(repo, "refs/heads/main", first, by=ada)
push(repo, {BRANCH!r}, last, by=ada)
push(repo, {BRANCH!r}.replace("heads", "tags"), last, by=ada)
create_pull(access=access, source_branch={BRANCH!r}[11:], target_branch="main", **hostile)
other = access_to(Principal(people[1]), repo)
create_reply(access=other, thread=thread, kind="comment", body="@Ada0")
create_pull(access=other, source_branch="c" * 255, target_branch="main", **hostile)
create_protection(access=access, branch="main")
team = create_team(principal=Principal(ada), name={HOSTILE!r}, slug="t" * 64)
invite = create_invite(principal=Principal(ada), expires_at=later, email="a" * 60 + "@example.org")
print(json.dumps({{
    "token": str(tokens[0].uuid), "invite": str(invite.uuid),
    "protection": str(protection.uuid), "approver": str(people[1].uuid),
    "reset": f"token={{reset_proof(people[2])}}",
    "proof": address_proof(ada, "a" * 60 + "@example.org"),
    "commit": last,
}}))
"""
"""Print, as JSON, the values for addresses of pages; runs on the server."""
