"""The hooks that drf-spectacular calls with the finished document, in the order of the settings."""

from __future__ import annotations

from typing import Any

from config.openapi.examples import describe
from config.openapi.words import with_named_words


def name_words(result: Any, generator: Any, request: Any, public: bool) -> Any:
    """Give closed vocabularies their names."""
    return with_named_words(result)


def add_words_and_examples(result: Any, generator: Any, request: Any, public: bool) -> Any:
    """Say of each operation, parameter and property what it is, with an example."""
    return describe(result)
