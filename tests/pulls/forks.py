"""carol's fork of a repository of team acme, and her pull from it."""

from __future__ import annotations

from apps.repos import jobs
from apps.repos.actions import create_fork
from apps.repos.models import Fork
from tests.api import Api
from tests.gitclient import Clone
from tests.prepared_data import with_people
from tests.principals import access_of, space_access_of


def with_upstream(make, folder):
    """A public repository of team acme with one commit on main."""
    things = with_people(make, folder)
    upstream = make.repo(things["acme"], "api", by=things["alice"], visibility="public")
    clone = Clone(folder / "upstream", upstream, things["alice"])
    clone.push_commit("main", {"README": "one\n"})
    return things | {"upstream": upstream}


def with_fork(make, folder):
    """carol's fork of it."""
    things = with_upstream(make, folder)
    create_fork(
        access=access_of(things["carol"], things["upstream"]),
        into=space_access_of(things["carol"], things["carol"]),
    )
    jobs.make_next_fork()
    return things | {"fork": Fork.objects.get().repo}


def with_clone(make, folder):
    """carol's work tree of her fork; `topic` is one commit ahead."""
    things = with_fork(make, folder)
    fork = things["fork"]
    clone = Clone(folder / "fork", fork, things["carol"])
    clone.git("fetch", "--quiet", str(fork.git.path), "main:refs/seen/base")
    clone.git("checkout", "--quiet", "-B", "main", "refs/seen/base")
    clone.push_commit("topic", {"arch": "open\n"}, onto="main")
    return things | {"clone": clone}


def with_pull(make, folder):
    """carol's pull from her fork: its record, and its address."""
    things = with_clone(make, folder)
    upstream, carol = things["upstream"], Api(make.token(things["carol"]))
    made = carol.post(f"{upstream.api_path}/pulls", **body("carol:topic")).gives(201)
    return things | {"pull": (made, f"{upstream.api_path}/pulls/{made['number']}")}


def body(source, target="main"):
    return {"title": "Open", "body": "", "source_branch": source, "target_branch": target}


def opened(api, upstream, by, source="carol:topic"):
    made = api(by).post(f"{upstream.api_path}/pulls", **body(source)).gives(201)
    return made, f"{upstream.api_path}/pulls/{made['number']}"


BUILDS = {"pull": with_pull, "clone": with_clone, "fork": with_fork, "upstream": with_upstream}
