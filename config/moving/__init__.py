"""Archives of repositories, and of the data of a person (docs/moving.md)."""
