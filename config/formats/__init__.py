"""How the admin shows times: by the clock of UTC, the same everywhere."""
