"""git over HTTP. views: the three addresses. push: one push, from its commands to its report.
streams: bytes between a request and a git process. transfer_slots, shared_slots: how many at once.
"""
