"""Databases: what the statement does, and where the server is.

Does not cover: functions of a server that write on SELECT.
"""

from __future__ import annotations

import re

from takeback.guard.command import Handler, Step
from takeback.guard.http import host_of
from takeback.guard.later import pattern
from takeback.guard.model import Class, Effect, Reason, What
from takeback.guard.places import LOCAL
from takeback.guard.words import UNKNOWN, shown

_COMMENT = pattern(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_QUOTED = pattern(r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`")
_READS = pattern(
    r"\s*(select|show|describe|desc|explain(?!\s+analy[sz]e\s+(?!select))|with|values|use|set"
    r"|pragma\s+\w+(\(\w+\))?\s*$|table|help|status"
    r"|\\(d|l|dt|dn|df|du|di|dv|x|timing|conninfo|c|connect|echo|pset|q|h|\?|encoding|z)\b|\.(tables|schema"
    r"|headers?|mode|databases|indexes|indices|width"
    r"|show|stats|dbinfo|fullschema|quit|exit|help|timeout|nullvalue|dump|once\s*$)|begin|start\s+transaction"
    r"|commit|rollback|end|fetch|declare"
    r"|from|summarize|check|print|exit|quit|list|get)",
    re.IGNORECASE,
)
_WRITES = pattern(
    r"\b(insert|update|delete|drop|truncate|alter|create|replace\s+into|merge|grant|revoke|vacuum|reindex|call|do"
    r"|copy|lock|into\s+(out|dump)file"
    r"|into\s+\w+\s+from|load_extension|pg_terminate_backend|pg_cancel_backend|pg_reload_conf|lo_(import|export"
    r"|unlink)|pg_read_file|setval|nextval"
    r"|dblink_exec|writefile|pg_write\w*|load\s+data|attach|detach|rename|purge|kill|flush|reset)\b",
    re.IGNORECASE,
)
# Commands of psql that run, read or write files.
_CLIENT = pattern(r"\\(!|copy|i|ir|o|w|g\s)")
_REDIS_READS = frozenset(
    "get mget keys scan exists ttl pttl type strlen info ping dbsize hget hgetall hmget hkeys hvals hlen hscan "
    "hexists lrange llen lindex smembers "
    "scard sismember sscan srandmember zrange zrangebyscore zcard zscore zscan zrank zcount time lastsave memory "
    "object dump getrange bitcount "
    "pfcount xrange xlen xinfo xread geopos geodist randomkey role slowlog latency cluster command echo select "
    "auth hello lolwut client".split()
)
_MONGO_WRITES = pattern(
    r"\b(drop\w*|insert\w*|update\w*|delete\w*|remove\w*|replace\w*|bulkWrite|create\w*|rename\w*|save"
    r"|findAndModify|findOneAnd\w+|shutdownServer"
    r"|grant\w*|revoke\w*|setProfilingLevel|killOp|adminCommand|runCommand|\$out|\$merge|mapReduce|fsyncLock"
    r"|compact|initiate|reconfig|addShard)\b"
)
_MONGO_READS = pattern(
    r"\b(find|findOne|count\w*|distinct|aggregate|getCollection\w*|stats|show\s+\w+|listCollections|explain"
    r"|getIndexes|serverStatus|version|hostInfo"
    r"|currentOp|getMongo|hello|isMaster|status|getName|dataSize|estimatedDocumentCount|help|print\w*|use|ping)\b"
)


def reads_only(text: str) -> bool:
    """Whether every SQL statement of a text only reads."""
    bare = _QUOTED.sub("''", _COMMENT.sub(" ", text))
    if UNKNOWN in bare:
        return False
    parts = [part for part in bare.split(";") if part.strip()]
    return bool(parts) and all(
        _READS.match(part) and not _WRITES.search(part) and not _CLIENT.search(part) for part in parts
    )


def sql(step: Step, host: str, query: str, file: str = "") -> None:
    """`sql(-h|--host,-c|--command,-f|--file)`: options of host, statement (or the operand of it) and file."""
    texts = step.select(*([query] if query[0] == "-" else [f"{query}.."]))
    where = _where(
        step, step.select(host), [one for one in step.operands[:3] if "://" in one or "host=" in one or UNKNOWN in one]
    )
    if texts and all(reads_only(text) for text in texts) and not (file and step.select(file)):
        return
    if not texts and not (file and step.select(file)) and step.stdin is not None and step.stdin.text is not None:
        if reads_only(step.stdin.text):
            return
    shell = re.search(r"\\!\s*(.*)", " ".join(texts))
    if shell:
        step.shell(shell[1])
    change(step, where, opaque=not texts)


def _where(step: Step, hosts: list[str], addresses: list[str]) -> str:
    """Return the host that is named, "" for this machine."""
    for one in addresses:
        found = re.search(r"\bhost=(\S+)", one)
        name = found[1] if found else one if UNKNOWN in one and "://" not in one else host_of(one)
        if name.endswith(UNKNOWN) or (not LOCAL.match(name) and name and not name.startswith("/")):
            return name
    for name in hosts:
        if name and not LOCAL.match(host_of(name)) and not name.startswith("/"):
            return host_of(name) or name
    for name in ("PGHOST", "MYSQL_HOST"):
        value = step.walk.prefixed.get(name) or step.walk.scope.variables.get(name, "")
        if value and not LOCAL.match(value) and not value.startswith("/"):
            return value
    return ""


def change(step: Step, host: str, *, opaque: bool = False) -> None:
    """Note a change of a database on `host`."""
    if host:
        why = f"{step.name} changes a database on {shown(host)}"
        step.walk.add(Effect(Class.OUTSIDE, What.DATABASE, why, shown(host)))
        return
    why = f"{step.name} changes a database on this machine"
    if opaque:
        why = f"{step.name}: what is done in the database is not seen"
    step.walk.add(Effect(Class.MACHINE, What.DATABASE, why, reason=Reason.OPAQUE if opaque else Reason.DESTROYS))


def sqlite(step: Step) -> None:
    """sqlite3, duckdb: the database is a file."""
    operands = step.operands
    texts = [*operands[1:], *step.parsed.values("-cmd", "-c", "-s")]
    if not texts and step.stdin is not None and step.stdin.text is not None:
        texts = [step.stdin.text]
    for text in texts:
        found = re.search(
            r"^\s*\.(?:shell|system)\s+(.*)|\.(?:output|once|save|backup|clone|log)\s+(\S+)", text, re.MULTILINE
        )
        if found and found[1]:
            step.shell(found[1])
        elif found:
            step.touch(found[2].strip("'\""))
    if step.parsed.has("-readonly", "--readonly") or (texts and all(reads_only(text) for text in texts)):
        return
    if operands and operands[0] not in (":memory:", ""):
        step.touch(operands[0])


def query(step: Step, kind: str) -> None:
    """redis-cli and mongosh."""
    parsed = step.parsed
    if kind == "redis":
        host = _where(step, parsed.values("-h", "-u"), [])
        words = step.operands
        if words and words[0].lower() == "config":
            reads = words[1:2] and words[1].lower() == "get"
        else:
            reads = bool(words) and words[0].lower() in _REDIS_READS
            reads = reads or parsed.has("--scan", "--bigkeys", "--stat", "--latency", "--memkeys", "--hotkeys")
        if not reads:
            change(step, host, opaque=not words)
        return
    address = [one for one in step.operands if "://" in one or UNKNOWN in one or re.match(r"[\w.-]+[:/]", one)]
    host = _where(step, parsed.values("--host"), address)
    texts = parsed.values("--eval")
    if not texts and step.stdin is not None and step.stdin.text is not None:
        texts = [step.stdin.text]
    if texts and all(
        _MONGO_READS.search(text) and not _MONGO_WRITES.search(text) and UNKNOWN not in text for text in texts
    ):
        return
    change(step, host, opaque=not texts)


def server(step: Step, host: str, *operands: str) -> None:
    """A client whose change happens on the server it names: this machine's when it names none or itself."""
    given = [*step.select(host)]
    for one in operands:
        given += [word for word in step.select(one) if "://" in word or ":" in word]
    change(step, _where(step, [one for value in given for one in value.split(",")], []))


def create(step: Step, host: str) -> None:
    """A client that makes something new on a server and overwrites nothing."""
    where = _where(step, step.select(host), [])
    if where:
        change(step, where)
    else:
        why = f"{step.name} makes something new in a database server on this machine"
        step.walk.add(Effect(Class.MACHINE, What.DATABASE, why, reason=Reason.SYSTEM))


HANDLERS: dict[str, Handler] = {"sql": sql, "sqlite": sqlite, "query": query, "server": server, "create": create}
