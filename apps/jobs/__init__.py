"""Work off the request path. leases: rows that one worker at a time takes. worker: the loop."""
