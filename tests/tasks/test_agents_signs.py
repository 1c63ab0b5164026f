"""What the hosts of models say when they do not go on has its outcome, and a limit its end."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from takeback.tasks.agents import Outcome, signs

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
NOW_NS = int(NOW.timestamp()) * 10**9

# Texts of the programs themselves, in their own words.
TEXTS = {
    "Claude AI usage limit reached|1796133600": Outcome.USAGE_LIMIT,
    "You've hit your limit · resets 3pm (Europe/Berlin)": Outcome.USAGE_LIMIT,
    "You've hit your weekly limit · resets Dec 9, 5pm (UTC)": Outcome.USAGE_LIMIT,
    "5-hour limit reached ∙ resets 3pm": Outcome.USAGE_LIMIT,
    "API Error: Request rejected (429) · Number of request tokens has exceeded your per-minute rate limit":
        Outcome.USAGE_LIMIT,
    "Credit balance is too low": Outcome.USAGE_LIMIT,
    "You've hit your usage limit. Upgrade to Pro or try again at 3:14 PM.": Outcome.USAGE_LIMIT,
    "exceeded retry limit, last status: 429 Too Many Requests": Outcome.USAGE_LIMIT,
    "You exceeded your current quota, please check your plan and billing details.": Outcome.USAGE_LIMIT,
    "You have exhausted your daily quota on this model.": Outcome.USAGE_LIMIT,
    '{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}': Outcome.USAGE_LIMIT,
    "litellm.RateLimitError: AnthropicException - slow down": Outcome.USAGE_LIMIT,
    "Not logged in · Please run /login": Outcome.LOGIN_EXPIRED,
    "Invalid API key · Please run /login": Outcome.LOGIN_EXPIRED,
    "Failed to authenticate. API Error: 401 scripted": Outcome.LOGIN_EXPIRED,
    "OAuth token has expired. Please obtain a new token": Outcome.LOGIN_EXPIRED,
    "OAuth token revoked · Please run /login": Outcome.LOGIN_EXPIRED,
    "unexpected status 401 Unauthorized: Missing bearer": Outcome.LOGIN_EXPIRED,
    "API key not valid. Please pass a valid API key.": Outcome.LOGIN_EXPIRED,
    "API Error: Claude Code is unable to respond, which appears to violate our Usage Policy": Outcome.REFUSED,
    "Prompt is too long": Outcome.REFUSED,
    "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons": Outcome.REFUSED,
    "error: unknown option '--nonsense'": None,
    "API Error: Request timed out": None,
    "Segmentation fault": None,
    "wrote src/limits.py with a limit of 401 rows; 429 tests passed": None,
}  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_an_errors_text_has_its_outcome(text: str) -> None:
    assert signs.of_text(text) is TEXTS[text]


@pytest.mark.parametrize(
    ("status", "text", "expected"),
    [
        (529, "overloaded", Outcome.CRASH),
        (500, "usage limit reached", Outcome.CRASH),
        (408, "", Outcome.CRASH),
        (429, "slow down", Outcome.USAGE_LIMIT),
        (402, "payment required", Outcome.USAGE_LIMIT),
        (401, "who are you", Outcome.LOGIN_EXPIRED),
        (403, "Failed to authenticate. API Error: 403", Outcome.LOGIN_EXPIRED),
        (403, "not for you", Outcome.REFUSED),
        (400, "Your credit balance is too low", Outcome.USAGE_LIMIT),
        (400, "prompt is too long", Outcome.REFUSED),
        (404, "model: nothing", Outcome.REFUSED),
        (None, "usage limit reached", Outcome.USAGE_LIMIT),
        (None, "connection reset", Outcome.CRASH),
    ],
)
def test_the_status_decides_and_the_text_where_it_knows_better(
    status: int | None, text: str, expected: Outcome
) -> None:
    assert signs.of_error(status, text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[API Error: {"error":{"code":529,"status":"overloaded"}}]', 529),
        ("  at file.js:311457:19 {\n  status: 429\n}", 429),
        ("unexpected status 401 Unauthorized: x, url: http://127.0.0.1:18799/v1", 401),
        ("exceeded retry limit, last status: 429 Too Many Requests", 429),
        ("statusCode: 503, then code: 200", 503),
        ("it took 500 ms", None),
    ],
)
def test_the_last_status_in_a_text_is_found(text: str, expected: int | None) -> None:
    assert signs.status_in(text) == expected


RESETS = {
    "Claude AI usage limit reached|1796133600": "2026-12-01 14:00:00",
    '{"resets_at":1796133600}': "2026-12-01 14:00:00",
    '"resetsAt": 1796133600000': "2026-12-01 14:00:00",
    "You've hit your limit · resets 3pm (Europe/Berlin)": "2026-12-01 14:00:00",
    "Your limit will reset at 4:30pm (America/New_York).": "2026-12-01 21:30:00",
    "5-hour limit reached ∙ resets 11am (UTC)": "2026-12-02 11:00:00",
    "resets at 15:00 UTC": "2026-12-01 15:00:00",
    "resets Dec 9, 5pm (UTC)": "2026-12-09 17:00:00",
    "limit ... resets Jan 2, 5pm (UTC)": "2027-01-02 17:00:00",
    "resets 2026-12-01T15:00:00Z": "2026-12-01 15:00:00",
    "resets at 2026-12-01T15:00:00+02:00": "2026-12-01 13:00:00",
    "try again in 1 day 3 hours 12 minutes.": "2026-12-02 15:12:00",
    "Please try again in 11m20s": "2026-12-01 12:11:20",
    "Please try again in 20 ms": "2026-12-01 12:00:00",
    "Your quota will reset after 3h5m10s.": "2026-12-01 15:05:10",
    '"retryDelay":"34s"': "2026-12-01 12:00:34",
    '{"resets_in_seconds": 4200}': "2026-12-01 13:10:00",
    '{"retry-after": "60"}': "2026-12-01 12:01:00",
    "resets 11:58am (UTC)": "2026-12-01 12:00:00",  # has just passed: nothing to wait for
    "Claude AI usage limit reached|1700000000": "2026-12-01 12:00:00",
    "resets 5": None,
    "resets Feb 31, 5pm (UTC)": None,
    "resets 25:99": None,
    "try again in 900 days": None,
    "usage limit reached": None,
}


@pytest.mark.parametrize("text", RESETS)
def test_a_limits_end_is_read(text: str) -> None:
    found = signs.resets_at(text, NOW_NS)
    told = None if found is None else datetime.fromtimestamp(found // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S")
    assert told == RESETS[text]


def test_a_time_of_day_without_a_zone_is_local(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        found = signs.resets_at("try again at Dec 9th, 2026 3:14 PM.", NOW_NS)
    finally:
        monkeypatch.undo()
        time.tzset()
    expected = datetime(2026, 12, 9, 15, 14, tzinfo=ZoneInfo("Asia/Tokyo"))
    assert found == int(expected.timestamp()) * 10**9


def test_a_zone_nobody_knows_is_taken_as_local() -> None:
    assert signs.resets_at("resets 3pm (Mars/Base)", NOW_NS) == signs.resets_at("resets 3pm", NOW_NS)
