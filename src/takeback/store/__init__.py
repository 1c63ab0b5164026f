"""Where events, checkpoints' catalogue and numbers are kept: a protocol and its implementations."""
