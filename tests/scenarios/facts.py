"""The state of a site: `manage.py shell` prints it on the site's data, and a test reads it."""

from __future__ import annotations

import sys
from typing import Any

import orjson
from django.utils import timezone

from apps.events.models import Event
from apps.pulls.models import MergeAttempt, Pull
from apps.repos.models import BRANCHES, TAGS, Fork, PushJournal, Repo

NAMESPACES = {"branch": BRANCHES, "tag": TAGS}
MOVES = ("branch-created", "branch-pushed", "branch-deleted", "tag-created", "tag-deleted")


def show() -> None:
    sys.stdout.write(orjson.dumps(facts()).decode())


def facts() -> dict[str, Any]:
    return {
        "repos": {str(repo.uuid): repo_facts(repo) for repo in Repo.objects.all()},
        "forks": [
            {
                "uuid": str(fork.uuid),
                "status": fork.status,
                "error": fork.error,
                "repo": str(fork.repo.uuid) if fork.repo else None,
                "upstream": str(fork.upstream.uuid),
                "attempts": fork.attempts,
            }
            for fork in Fork.objects.select_related("repo", "upstream")
        ],
        "made": PushJournal.objects.filter(is_made=True).count(),
        "attempts": list(MergeAttempt.objects.values_list("pull__status", flat=True)),
        "live_attempts": MergeAttempt.objects.filter(leased_until__gt=timezone.now()).count(),
        "merged": [
            [str(uuid), f"refs/heads/{branch}", sha]
            for uuid, branch, sha in Pull.objects.filter(status="merged").values_list(
                "repo__uuid", "target_branch", "merge_commit_sha"
            )
        ],
        "pull-merged": Event.objects.filter(kind="pull-merged").count(),
    }


def repo_facts(repo: Repo) -> dict[str, Any]:
    events = Event.objects.filter(repo_id=repo.pk, kind__in=MOVES).order_by("id")
    return {
        "slug": repo.slug,
        "store": str(repo.git.path),
        "stored": dict(repo.refs.values_list("full_name", "sha")),
        "git": repo.git.refs(),
        "moves": [
            {
                "ref": NAMESPACES[event.target["kind"]] + event.target["name"],
                "before": event.data["before"],
                "after": event.data["after"],
                "actor": event.actor_id,
            }
            for event in events
        ],
    }
