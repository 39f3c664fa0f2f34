"""The only code that runs git. It imports neither Django nor another app.

run: starts git processes, within limits. repo: one bare repository. store: its folder. protocol:
the wire format of pushes and fetches. exports: archives and patches. cache: answers in memory.
"""
