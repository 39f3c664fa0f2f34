"""The only code that runs git. It imports neither Django nor anything else of ours.

run: the spawner and its boxes. repo: one bare repository. merge: merging without a
work tree. protocol: the wire format of a push, without any input or output.
"""
