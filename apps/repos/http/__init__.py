"""git over HTTP. views: the three URLs. push: one push, from its commands to its report.
streams: bytes between a request and a git process. transfer_slots, shared_slots: limits of how many
run at once.
"""
