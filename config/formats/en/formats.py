"""Django looks here before its own formats."""

DATETIME_FORMAT = "Y-m-d H:i"
