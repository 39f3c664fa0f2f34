"""The only code that runs git. It imports neither Django nor another app.

run: starts git, within limits. repo: one bare repository. merge: merges without a work tree.
log, diff, hunks: what commits say and change. facts, cache: answers that are kept. protocol: the
format of a push. store: all repositories.
"""
