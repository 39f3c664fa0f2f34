"""Heights of the tide, from the constituents of a harbour."""
