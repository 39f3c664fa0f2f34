"""The format of times in the admin: UTC in the same form everywhere."""
