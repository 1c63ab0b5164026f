"""Where a path lies, and so what writing or deleting it means.

Does not cover: the file system itself; a symlink is followed only when the context can (`Context.resolve`).
"""

from __future__ import annotations

import posixpath

from takeback.guard import brake
from takeback.guard.context import Context
from takeback.guard.later import pattern
from takeback.guard.model import Class, Effect, Reason, What
from takeback.guard.words import UNKNOWN, shown

_NOWHERE = pattern(r"-|/dev/(null|stdout|stderr|stdin|tty|zero|fd/\d+)|&\d+")
_SOCKET = pattern(r"/dev/(tcp|udp)/([^/]*)")
_TEMPORARY = pattern(r"(/private)?(/tmp|/var/tmp|/dev/shm|/var/folders)/.*[^/]")
_METADATA = pattern(
    r"(config(\.worktree)?|description|hooks|info|hooks/.*|info/.*|[^ ]*\.lock|COMMIT_EDITMSG|MERGE_MSG)$"
)
LOCAL = pattern(r"(localhost|127(\.\d+){3}|\[?::1\]?|0\.0\.0\.0|host\.docker\.internal|[\w-]+\.localhost)$")


def absolute(path: str, cwd: str | None) -> str | None:
    """Return `path` as absolute and normal, None when its place cannot be known.

    What follows an unknown part counts as below what comes before it, when that ends with a slash.
    """
    if UNKNOWN in path:
        known = path[: path.index(UNKNOWN)]
        if "/" not in known:
            return None
        path = known[: known.rindex("/") + 1] + "?"
    if not path.startswith("/"):
        if cwd is None:
            return None
        path = cwd + "/" + path
    return posixpath.normpath(path)


def inside(path: str, folder: str) -> bool:
    """Whether an absolute path is `folder` or below it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def touch(path: str, cwd: str | None, context: Context, *, delete: bool = False, deep: bool = False) -> list[Effect]:
    """Return what writing (or deleting) `path` does; `deep`: with all below it."""
    what = What.DELETE if delete else What.WRITE
    verb = "deletes" if delete else "writes"
    if _NOWHERE.fullmatch(path):
        return []
    socket = _SOCKET.match(path)
    if socket is not None:
        return [_socket(socket[2])]
    whole = absolute(path, cwd)
    if whole is None:
        reason = Reason.DESTROYS if delete else Reason.OPAQUE
        effect = Effect(Class.MACHINE, what, f"{verb} a path that cannot be known", shown(path), reason=reason)
        return [*brake.unknown(path), effect]
    real = context.resolve(whole) if "*" not in whole else whole
    effects = brake.reached(real, context, deletes=delete)
    if not inside(real, context.root):
        effects.append(_outside(path, real, what, verb, context, deep))
        return effects
    rel = real[len(context.root) :].lstrip("/")
    last = path.rstrip("/").rpartition("/")[2]
    if rel == ".git" or rel.startswith(".git/") or "/.git/" in rel or rel.endswith("/.git"):
        part = rel.partition(".git")[2].lstrip("/")
        if part and _METADATA.match(part):
            effects.append(Effect(Class.STATE, What.METADATA, f"{verb} {rel}, which no commit holds", rel))
        else:
            # Not `destroys`: a checkpoint of the project, reflogs included, brings it back.
            effects.append(
                Effect(Class.MACHINE, What.METADATA, f"{verb} the repository itself", rel, reason=Reason.SYSTEM)
            )
    elif delete and (rel == "" or last in (".*", "{*,.*}") or (last.startswith(".") and set(last) <= set(".*?[]!^"))):
        effects.append(
            Effect(
                Class.MACHINE,
                What.METADATA,
                f"{verb} the whole project with its .git",
                rel or ".",
                reason=Reason.SYSTEM,
            )
        )
    elif (delete and rel in ("*", "**", "**/*", "?*")) or _ignored(rel, context):
        effects.append(Effect(Class.STATE, what, f"{verb} {rel}, which git does not see", rel))
    elif context.nested(rel):
        effects.append(Effect(Class.STATE, what, f"{verb} {rel} in another repository inside the project", rel))
    elif delete and context.holds_ignored(rel):
        effects.append(Effect(Class.STATE, what, f"{verb} {rel} with files in it that git does not see", rel))
    else:
        effects.append(Effect(Class.FILES, what, f"{verb} {rel or '.'}", rel or "."))
    return effects


def _ignored(rel: str, context: Context) -> bool:
    return bool(rel) and context.ignored(rel)


def _socket(host: str) -> Effect:
    if LOCAL.match(host):
        return Effect(Class.MACHINE, What.NETWORK, f"talks to {host}", host, reason=Reason.OPAQUE)
    return Effect(Class.OUTSIDE, What.NETWORK, f"sends data to {shown(host)}", host)


def _outside(path: str, real: str, what: What, verb: str, context: Context, deep: bool) -> Effect:
    name = shown(path)
    if inside(context.root, real) and (deep or what is What.DELETE):
        return Effect(Class.MACHINE, what, f"{verb} {name}, which holds the project", real, reason=Reason.DESTROYS)
    if _TEMPORARY.fullmatch(real):
        return Effect(Class.MACHINE, what, f"{verb} {name}, a temporary file", real, reason=Reason.SYSTEM)
    return Effect(Class.MACHINE, what, f"{verb} {name}, outside the project", real, reason=Reason.DESTROYS)


def at(cwd: str | None, context: Context) -> bool:
    """Whether a step at `cwd` works in the project."""
    return cwd is not None and inside(context.resolve(cwd), context.root)
