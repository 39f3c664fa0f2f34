"""The resources `/users/self/keys` and `…/repos/{repo_slug}/keys`."""

from __future__ import annotations

from typing import Any

from rest_framework.response import Response

from apps.accounts.principal import Principal
from apps.core.access import Level, Permission
from apps.core.lookup import get_or_missing
from apps.core.operation import operation
from apps.core.views import ApiViewSet
from apps.repos.access import RepoScoped
from apps.ssh import actions, queries
from apps.ssh.models import SshKey
from apps.ssh.serializers import (
    CreateDeployKey,
    CreateSshKey,
    DeployKeyRecord,
    SshKeyRecord,
    deploy_key_record,
    ssh_key_record,
)


class SshKeyViewSet(ApiViewSet):
    """/users/self/keys"""

    schema_tags = ["users"]
    queryset = SshKey.objects.all()
    lookup_url_kwarg = "uuid"
    lookup_value_converter = "uid"
    principal: Principal
    ssh_key: SshKey

    def load_objects(self) -> None:
        if "uuid" in self.kwargs:
            keys = queries.list_keys(self.principal.user)
            self.ssh_key = get_or_missing(keys, "SSH key", uuid=self.kwargs["uuid"])

    @operation(Level.NONE, permission=Permission.ADMIN, response=SshKeyRecord)
    def list(self) -> Response:
        """List the caller's SSH keys, newest first."""
        return self.page_of(queries.list_keys(self.principal.user), ssh_key_record)

    @operation(
        Level.NONE,
        permission=Permission.ADMIN,
        request=CreateSshKey,
        response=SshKeyRecord,
        status=201,
        errors=("key_in_use", "key_limit", "person_required"),
    )
    def create(self) -> dict[str, Any]:
        """Add an SSH key to the caller, for git over SSH.

        It may do with git what the caller may. Without a `title` it gets the comment of the key.
        """
        key = actions.create_key(principal=self.principal, **self.validated_data)
        return ssh_key_record(key)

    @operation(Level.NONE, permission=Permission.ADMIN, response=SshKeyRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read one of the caller's SSH keys."""
        return ssh_key_record(self.ssh_key)

    @operation(Level.NONE, permission=Permission.ADMIN, status=204)
    def destroy(self) -> None:
        """Delete one of the caller's SSH keys. Its connections end."""
        actions.delete_key(principal=self.principal, ssh_key=self.ssh_key)


class DeployKeyViewSet(RepoScoped):
    """…/repos/{repo_slug}/keys"""

    schema_tags = ["repos"]
    queryset = SshKey.objects.all()
    lookup_url_kwarg = "uuid"
    lookup_value_converter = "uid"
    ssh_key: SshKey

    def load_objects(self) -> None:
        if "uuid" in self.kwargs:
            keys = queries.list_deploy_keys(self.repo)
            self.ssh_key = get_or_missing(keys, "deploy key", uuid=self.kwargs["uuid"])

    @operation(Level.ADMIN, response=DeployKeyRecord)
    def list(self) -> Response:
        """List the deploy keys of a repository, newest first."""
        return self.page_of(queries.list_deploy_keys(self.repo), deploy_key_record)

    @operation(
        Level.ADMIN,
        request=CreateDeployKey,
        response=DeployKeyRecord,
        status=201,
        errors=("key_in_use", "key_limit"),
    )
    def create(self) -> dict[str, Any]:
        """Add a deploy key: an SSH key that reads this repository, and nothing else.

        With `can_write` it also pushes. It belongs to the repository and not to the caller, who is
        the actor of its pushes. Without a `title` it gets the comment of the key.
        """
        key = actions.create_deploy_key(access=self.access, **self.validated_data)
        return deploy_key_record(key)

    @operation(Level.ADMIN, response=DeployKeyRecord)
    def retrieve(self) -> dict[str, Any]:
        """Read a deploy key."""
        return deploy_key_record(self.ssh_key)

    @operation(Level.ADMIN, status=204)
    def destroy(self) -> None:
        """Delete a deploy key. Its connections end."""
        actions.delete_deploy_key(access=self.access, ssh_key=self.ssh_key)
