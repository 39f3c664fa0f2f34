"""The only code that runs git. It imports neither Django nor another app.

run: starts git processes, within limits. repo: one bare repository. refs: names of refs. merge:
merges without a work tree. log, history, diff, tree, blame: commits, changes, files. tips: commits
and tags of refs. cache: answers in memory. exports: archives and patches. protocol: the wire format
of pushes and fetches. graph: the commit-graph. store: the folders of repositories.
"""
