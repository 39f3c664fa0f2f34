"""Repositories, forks, protections and refs.

Pushes and merges store all that lists and records need of git, so that these never run git.
"""

from apps.repos.models.fork import Fork as Fork
from apps.repos.models.fork import ForkQuerySet as ForkQuerySet
from apps.repos.models.fork import ForkStatus as ForkStatus
from apps.repos.models.protection import MOST_PROTECTIONS as MOST_PROTECTIONS
from apps.repos.models.protection import NAMES_MAX as NAMES_MAX
from apps.repos.models.protection import PATTERN_MAX as PATTERN_MAX
from apps.repos.models.protection import REQUIRED_MAX as REQUIRED_MAX
from apps.repos.models.protection import Approver as Approver
from apps.repos.models.protection import Protection as Protection
from apps.repos.models.protection import ProtectionQuerySet as ProtectionQuerySet
from apps.repos.models.protection import glob_matches as glob_matches
from apps.repos.models.protection import protections_of as protections_of
from apps.repos.models.protection import protects as protects
from apps.repos.models.ref import TIP_COLUMNS as TIP_COLUMNS
from apps.repos.models.ref import UNREAD as UNREAD
from apps.repos.models.ref import UNSOUGHT as UNSOUGHT
from apps.repos.models.ref import CommitPush as CommitPush
from apps.repos.models.ref import CommitSearch as CommitSearch
from apps.repos.models.ref import NamedCommit as NamedCommit
from apps.repos.models.ref import PushJournal as PushJournal
from apps.repos.models.ref import Ref as Ref
from apps.repos.models.ref import RefQuerySet as RefQuerySet
from apps.repos.models.ref import RefRow as RefRow
from apps.repos.models.repo import BRANCHES as BRANCHES
from apps.repos.models.repo import HEAD_DUE as HEAD_DUE
from apps.repos.models.repo import PUSHES_DUE as PUSHES_DUE
from apps.repos.models.repo import RANK as RANK
from apps.repos.models.repo import TAGS as TAGS
from apps.repos.models.repo import UNTIDY as UNTIDY
from apps.repos.models.repo import FormerRepoSlug as FormerRepoSlug
from apps.repos.models.repo import Repo as Repo
from apps.repos.models.repo import RepoPath as RepoPath
from apps.repos.models.repo import RepoQuerySet as RepoQuerySet
from apps.repos.models.repo import RepoRow as RepoRow
from apps.repos.models.repo import Visibility as Visibility
