"""Background work. leases: rows that only one worker at a time takes. worker: the loop."""
