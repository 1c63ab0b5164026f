"""What hosts of models say when they do not go on, by HTTP status or by text, and when a usage limit ends.

    Claude AI usage limit reached|1796117280              5-hour limit reached ∙ resets 3pm (Europe/Berlin)
    You've hit your usage limit. ... try again at Oct 9th, 2026 3:14 PM.        Please try again in 1h20m5s
    Your quota will reset after 3h5m10s.                  "resets_in_seconds": 4200       Retry-After: 60

Does not cover: where a program puts its status and its text (a file each). Only errors are read here, never the work
itself: a file about rate limits must not look like one.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from takeback.tasks.agents.base import Outcome

_LIMIT = re.compile(
    r"(usage|session|weekly|daily|hour|message|spend\w*|request|rate|credit|token)s?[ _-]limit\w*[ _]*(\w+ ){0,3}"
    r"(reached|exceeded|error|hit)|hit your [\w -]{0,40}limit|limit reached|too many requests|rate_limit_error"
    r"|resource_exhausted|usage_limit|usage_not_included|insufficient_quota|ratelimiterror|terminalquotaerror"
    r"|(exceeded|exhausted) your ([\w -]{0,40}?)(quota|capacity|limit)|quota (is |was |has been )?(exceeded|exhausted)"
    r"|credit balance is too low|\b(status|error|code|http)\W{0,3}(code\W{0,2})?429\b",
    re.IGNORECASE,
)
_LOGIN = re.compile(
    r"\b(status|error|code|http)\W{0,3}(code\W{0,2})?401\b|401 unauthorized|authentication_error|authenticationerror"
    r"|invalid (x-)?api[ -]key|incorrect api key|api key (not valid|is (invalid|missing|expired))"
    r"|failed to authenticate|not logged in|please (run|use) \W{0,2}/?login|log in again|token (has )?(been )?"
    r"(expired|revoked|invalidated)"
    r"|(session|login|credentials?) (has |have )?expired|oauth authentication is currently not|unauthenticated"
    r"|please set an auth method|providerautherror",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"usage policy|content[ _]policy|content_filter|policy[ _]violation|invalid_request_error|prompt is too long"
    r"|context[ _]?(window|length)[ _]?(exceeded|overflow)|contextoverflow|cannot be used with root|model_not_found"
    r"|not_found_error|permission_error|prohibited_content|badrequesterror|cyber_policy",
    re.IGNORECASE,
)
_STATUS = re.compile(r"\b(?:status(?:_?code)?|code)\W{1,4}([45]\d\d)\b", re.IGNORECASE)

_UNIT = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(ms\b|[dhms])", re.IGNORECASE)
_AFTER = re.compile(
    r"(?:(?:re)?try(?: again)? in|resets? (?:after|in)|retry after|retrydelay\W+)\s*"
    r"((?:\d+(?:\.\d+)?\s*(?:d|h|m|s)[a-z]*[\s,]*(?:and\s+)?)+)",
    re.IGNORECASE,
)
_SECONDS = re.compile(
    r"(?:resets_in_seconds|retry[-_]after(?:_seconds)?)\W{1,4}(\d+(?:\.\d+)?)\b(?!\s*[a-z])", re.IGNORECASE
)
_STAMP = re.compile(r"(?:\breset(?:s|_?at|s_?at)?\b\W{1,4}|limit reached\|)(\d{10}|\d{13})\b", re.IGNORECASE)
_ISO = re.compile(
    r"reset\w*\W[^\n]{0,20}?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?)", re.IGNORECASE
)
_CLOCK = re.compile(
    r"(?:resets?|try again)(?: at| on)?\s+"
    r"(?:(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.? (?P<day>\d{1,2})(?:st|nd|rd|th)?"
    r"(?:,? (?P<year>20\d\d))?,?(?: at)? )?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s*(?P<half>[ap]\.?m\.?)?(?:\s*\((?P<zone>[A-Za-z_/+-]+[0-9]*)\)|\s*(?P<utc>UTC|GMT)\b)?",
    re.IGNORECASE,
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_JUST_PASSED = timedelta(minutes=5)  # a limit that ended while the program was still failing
_LONGEST = 40 * 86400 * 10**9


def of_status(status: int) -> Outcome:
    """Return what an HTTP status of the model's host means for a task."""
    if status == 401:
        return Outcome.LOGIN_EXPIRED
    if status in (402, 429):
        return Outcome.USAGE_LIMIT
    if 400 <= status < 500 and status not in (408, 409, 425):
        return Outcome.REFUSED
    return Outcome.CRASH


def of_text(text: str) -> Outcome | None:
    """Return what an error's text says, None when it is none of the known ones."""
    for pattern, outcome in (
        (_LIMIT, Outcome.USAGE_LIMIT), (_LOGIN, Outcome.LOGIN_EXPIRED), (_REFUSED, Outcome.REFUSED),
    ):  # fmt: skip
        if pattern.search(text):
            return outcome
    return None


def of_error(status: int | None, text: str) -> Outcome:
    """Return what a failed request to the model means, by its status, else by its text."""
    said = of_text(text)
    if status is None:
        return said or Outcome.CRASH
    by_status = of_status(status)
    # 400 for an empty account, 403 for a login that was taken back: the text knows better.
    known_better = by_status is Outcome.REFUSED and said in (Outcome.USAGE_LIMIT, Outcome.LOGIN_EXPIRED)
    return said if said is not None and known_better else by_status


def status_in(text: str) -> int | None:
    """Return the last HTTP status of an error that a text names: `"code":429`, `status: 529`, `status 401 Unauth..`."""
    found = _STATUS.findall(text)
    return int(found[-1]) if found else None


def out_of_time(timeout: float | None) -> str:
    """Return why a run was ended by us."""
    return "it was stopped" if timeout is None else f"it did not end within {timeout:g} s and was stopped"


def resets_at(text: str, now_ns: int) -> int | None:
    """Return when a usage limit ends (ns since 1970), None when the text does not say; never before `now_ns`.

    A time of day without a zone is local time; one that has passed is tomorrow's.
    """
    found = _stamped(text, now_ns) or _in_a_while(text, now_ns) or _by_the_clock(text, now_ns)
    if found is None or found > now_ns + _LONGEST:
        return None
    return max(found, now_ns)


def _stamped(text: str, now_ns: int) -> int | None:
    if match := _STAMP.search(text):
        number = int(match[1])
        return number * (10**9 if number < 10**11 else 10**6)
    if match := _ISO.search(text):
        when = datetime.fromisoformat(match[1])
        return _ns(when if when.tzinfo else when.replace(tzinfo=_local(now_ns)))
    return None


def _in_a_while(text: str, now_ns: int) -> int | None:
    if match := _SECONDS.search(text):
        return now_ns + int(float(match[1]) * 10**9)
    if match := _AFTER.search(text):
        seconds = sum(
            float(number) * (0.001 if unit.lower() == "ms" else _UNIT[unit.lower()[0]])
            for number, unit in _SPAN.findall(match[1])
        )
        return now_ns + int(seconds * 10**9)
    return None


def _by_the_clock(text: str, now_ns: int) -> int | None:
    for match in _CLOCK.finditer(text):
        hour, minute = int(match["hour"]), int(match["minute"] or 0)
        if match["half"]:
            hour = hour % 12 + (12 if match["half"][0] in "pP" else 0)
        elif not match["minute"]:
            continue  # "resets 5" is no time of day
        now = datetime.fromtimestamp(now_ns / 10**9, _zone(match["zone"] or match["utc"], now_ns))
        try:
            when = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
            if match["month"]:
                month = _MONTHS.index(match["month"].lower()) + 1
                when = when.replace(year=int(match["year"] or now.year), month=month, day=int(match["day"]))
                if when < now and not match["year"] and now - when > timedelta(days=180):
                    when = when.replace(year=now.year + 1)
            elif when < now - _JUST_PASSED:
                when += timedelta(days=1)
        except ValueError:
            continue
        return _ns(when)
    return None


def _zone(name: str | None, now_ns: int) -> tzinfo:
    try:
        return ZoneInfo(name) if name else _local(now_ns)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return _local(now_ns)


def _local(now_ns: int) -> tzinfo:
    return datetime.fromtimestamp(now_ns / 10**9).astimezone().tzinfo  # type: ignore[return-value]


def _ns(when: datetime) -> int:
    return int(when.timestamp()) * 10**9
