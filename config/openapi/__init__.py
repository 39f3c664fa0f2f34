"""Parts of the OpenAPI document that the code does not declare: words, examples, typed events."""
