"""What operations are called in the OpenAPI document, and so the functions of generated clients:
`list_team_pulls`, `merge_user_pull`. A verb, the owner where there is one, and what it is about.
"""

from __future__ import annotations

import re

VERBS = {
    "list": "list",
    "create": "create",
    "retrieve": "get",
    "update": "update",
    "partial_update": "update",
    "destroy": "delete",
}
"""By the names that DRF gives to methods of viewsets."""
WHOLE = re.compile(r"(check|suggest|tail)-(.+)")
"""Addresses that say what they do."""
EXCEPTIONS = {
    "openapi.json": "get_openapi_document",
    "forks/user/{fork_username}": "get_{owner}_repo_fork_of_user",
    "forks/team/{fork_team_slug}": "get_{owner}_repo_fork_of_team",
    "tree/{path}": "list_{owner}_directory",
}
"""By the end of the path; `{owner}` is `team` or `user`."""


def operation_name(method: str, path: str, action: str) -> str:
    """The `operationId` of a method at a path below `/api/v1`, by the name of the viewset's method.

    Whatever is below a repository goes without its name: a pull is in one anyway.
    """
    owner, rest = split_owner(path.strip("/"))
    for end, name in EXCEPTIONS.items():
        if path.endswith(end):
            return name.format(owner=owner)
    if found := WHOLE.fullmatch(rest):
        return joined(found[1], owner, found[2])
    verb, nouns = split_verb(method, rest.split("/"), action)
    return joined(verb, owner, *nouns)


def split_owner(path: str) -> tuple[str, str]:
    """`team` or `user` where something of theirs is meant, and the rest of the path."""
    found = re.fullmatch(r"(team|user)s/\{\w+\}/(.+)", path)
    if found is None:
        return "", path
    own = re.sub(r"^repos/\{repo_slug\}/(?!forks?\b)", "", found[2])
    return found[1], own


def split_verb(method: str, parts: list[str], action: str) -> tuple[str, list[str]]:
    """The verb, and the nouns: each in the singular of which the path names one."""
    verb = VERBS.get(action)
    if parts[-1] == "self":
        return f"{'get' if method == 'GET' else 'update'}_own", singulars([*parts[:-1], "{one}"])
    if verb is None and method == "GET":
        return "get", singulars(parts)
    if verb is None:
        first, _, what = action.partition("_")
        if what == "all":
            return action, singulars(parts[:-1])
        return first, [*singulars(parts[:-1]), *([what] if what else [])]
    return verb, singulars([*parts, "{one}"] if verb == "create" else parts)


def singulars(parts: list[str]) -> list[str]:
    followed = zip(parts, [*parts[1:], ""], strict=True)
    return [
        singular(part) if after.startswith("{") else part
        for part, after in followed
        if not part.startswith("{")
    ]


def singular(noun: str) -> str:
    if noun.endswith("ches"):
        return noun.removesuffix("es")
    return f"{noun[:-3]}y" if noun.endswith("ies") else noun.removesuffix("s")


def joined(*words: str) -> str:
    return "_".join(word for word in words if word).replace("-", "_")
