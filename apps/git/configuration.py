"""The file `config` of each repository."""

from typing import Final

MOST_PUSHED: Final = 2 * 1024**3
"""Most bytes of the pack of one push. The same as `maxInputSize` below."""
CONFIG: Final = """\
[core]
	repositoryFormatVersion = 0
	bare = true
	fileMode = true
	logAllRefUpdates = false
	bigFileThreshold = 32m
	filesRefLockTimeout = 2000
[pack]
	threads = 2
	windowMemory = 64m
	deltaCacheSize = 64m
[gc]
	auto = 0
	autoDetach = false
[transfer]
	hideRefs = refs
	hideRefs = !refs/heads
	hideRefs = !refs/tags
[uploadpack]
	allowFilter = true
	hideRefs = !refs/pull
[receive]
	fsckObjects = true
	maxInputSize = 2g
	autogc = false
	advertisePushOptions = false
[receive "fsck"]
	badTimezone = ignore
	missingSpaceBeforeDate = ignore
	zeroPaddedFilemode = ignore
"""
