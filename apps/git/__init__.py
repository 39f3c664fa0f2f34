"""The only code that runs git. It imports neither Django nor another app.

run: starts git processes, within limits. repo: one bare repository. merge: merges without a work
tree. log, diff, hunks: commits, their changes, patches. facts, cache: git's answers, in memory.
protocol: the wire format of pushes and fetches. store: the folder of all repositories.
"""
