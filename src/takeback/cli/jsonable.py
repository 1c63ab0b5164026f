"""The JSON documents, under the name that commands use for them (see `documents`)."""

from __future__ import annotations

from takeback.documents import (
    SCHEMA,
    checkpoint,
    document,
    error,
    event,
    known_error,
    named_bytes,
    plain,
    redacted_document,
    restore,
    step,
    utc,
    without_secrets,
)

__all__ = [
    "SCHEMA",
    "checkpoint",
    "document",
    "error",
    "event",
    "known_error",
    "named_bytes",
    "plain",
    "redacted_document",
    "restore",
    "step",
    "utc",
    "without_secrets",
]
