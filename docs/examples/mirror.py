"""Mirror a repository to another git server: `API=… TOKEN=… python3 mirror.py PATH ADDRESS`.

PATH is that of the repository, such as `teams/acme/api`, and ADDRESS that of an empty repository
that belongs to this program: branches and tags that Guildhall does not have are deleted there.
"""

import subprocess
import sys

from guildhall import follow, git_environment, site, skip_history

PATH, ADDRESS = sys.argv[1:]
KINDS = ["branch-created", "branch-pushed", "branch-deleted", "tag-created", "tag-deleted"]
REFS = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")


def git(*arguments):
    command = ["git", "-C", "mirror.git", *arguments]
    return subprocess.run(command, check=True, env=git_environment(), stdout=subprocess.PIPE).stdout


def mirror(event=None):
    """Copy all branches and tags as they are now. A second time changes nothing."""
    try:
        git("fetch", "--quiet", "--prune", "--no-tags", f"{site()}/{PATH}.git", *REFS)
        if git("for-each-ref", "--count=1"):  # git refuses to push nothing
            git("push", "--quiet", "--prune", ADDRESS, *REFS)
    except subprocess.CalledProcessError as failed:
        raise OSError("git failed, and has written why") from failed  # once more, later
    print("mirrored", event["id"] if event else "everything", flush=True)


subprocess.run(["git", "init", "--quiet", "--bare", "mirror.git"], check=True)
skip_history(scope=f"repo:{PATH}")
mirror()
follow(mirror, scope=f"repo:{PATH}", kind=KINDS)
