"""SSH keys of people and repositories, and git over SSH (docs/ssh.md).

`server` needs asyncssh; everything else works without it, and imports neither of them.
"""
