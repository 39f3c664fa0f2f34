"""What the OpenAPI document says beyond what the code declares: words, examples, typed events."""
