"""What the hosted client has and a machine of one's own has no use for: it is there, and says so.

Does not cover: fields of a create without a meaning here (`keeper.creation` leaves them out).
"""

from __future__ import annotations

from typing import Any, NoReturn

from takeback.errors import Unsupported

_PRODUCTS = {
    "sessions": "your own program reaches the sandbox by its id; let others in with forward_port or previews",
    "desktop": "run Xvfb and a VNC server in it, and look in with forward_port",
    "browser": "run a browser without a window in it (chromium --headless)",
    "mounts": "copy with files.upload, or run rclone in it",
    "tailscale": "let it reach what it needs with network.set(connect=[...])",
    "mcp": "spawn the server in it and reach it with forward_port",
    "watches": "Sandbox.diff tells what changed; spawn inotifywait in it to follow changes",
    "volumes": "keep files in a sandbox of their own, or copy them with files.download",
    "images": "an image is named when a sandbox is made: see `takeback setup` and docs/how-to/images.md",
    "jobs": "let cron or a systemd timer start your program",
    "secrets": "give what a command needs with env=, and narrow what it may reach with network.set",
    "limits": "only this machine's memory and disk are limits; `takeback du` shows the disk",
    "events": "look at the records: Sandbox.list and snapshots.list",
    "webhooks": "your own program sees what happens",
    "otel": "Sandbox.metrics tells what it uses",
    "audit": "the keeper's log and network.log tell what was done",
}


class Elsewhere:
    """A part of the hosted service that is not here; whatever is called of it raises Unsupported with what to do."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)

        def refuse(*_: object, **__: object) -> NoReturn:
            raise not_here(f"{self._what}.{name}", _PRODUCTS[self._what])

        return refuse


def not_here(what: str, instead: str) -> Unsupported:
    """Return the error of a call that only the hosted service has."""
    return Unsupported(what=f"{what} of the hosted service", next=instead)


class HostedParts:
    """The parts of a sandbox that only the hosted service has: every call of them raises Unsupported."""

    sessions = Elsewhere("sessions")
    desktop = Elsewhere("desktop")
    browser = Elsewhere("browser")
    mounts = Elsewhere("mounts")
    tailscale = Elsewhere("tailscale")
    mcp = Elsewhere("mcp")

    @staticmethod
    def from_session(token: str, sandbox_id: str, api_url: str | None = None, *, timeout: float = 300) -> NoReturn:
        """Raise Unsupported: nobody needs a token here, `connect` finds a sandbox by its id."""
        raise not_here("a session's token", "Sandbox.connect(sandbox_id) needs none")

    @staticmethod
    def identity_token(audience: str, *, lifetime_seconds: int | None = None, timeout: float = 10.0) -> NoReturn:
        """Raise Unsupported: one's own machine vouches for nobody."""
        raise not_here("identity_token", "give a sandbox what it needs to log in with env=")


class HostedAccount:
    """The parts of an account that only the hosted service has: every call of them raises Unsupported."""

    volumes = Elsewhere("volumes")
    images = Elsewhere("images")
    jobs = Elsewhere("jobs")
    secrets = Elsewhere("secrets")
    limits = Elsewhere("limits")
    events = Elsewhere("events")
    webhooks = Elsewhere("webhooks")
    otel = Elsewhere("otel")
    audit = Elsewhere("audit")

    def me(self) -> NoReturn:
        """Raise Unsupported: there are no accounts here."""
        raise not_here("me", "there are no accounts: sandboxes are those of the user who runs takeback")

    def usage(self) -> NoReturn:
        """Raise Unsupported: nothing is billed here."""
        raise not_here("usage", "Sandbox.cost tells what one used; nothing is billed")

    def usage_requests(self, range: str = "24h") -> NoReturn:
        """Raise Unsupported: nothing is counted here."""
        raise not_here("usage_requests", "calls cost nothing here")

    def usage_export(self, since: str, until: str, *, cursor: str | None = None, limit: int | None = None) -> NoReturn:
        """Raise Unsupported: nothing is billed here."""
        raise not_here("usage_export", "Sandbox.cost tells what one used; nothing is billed")

    def request(self, method: str, path: str, **more: Any) -> NoReturn:
        """Raise Unsupported: there is no server here."""
        raise not_here(f"{method} {path}", "there is no HTTP server; use the methods of Sandbox")


class HostedFiles:
    """The calls on files that only the hosted service has."""

    watches = Elsewhere("watches")

    def watch(self, path: str, **options: Any) -> NoReturn:
        """Raise Unsupported: look with `diff`, or run a watcher in the sandbox."""
        raise not_here("files.watch", _PRODUCTS["watches"])

    def download_url(
        self,
        path: str,
        *,
        expires_in_seconds: int | None = None,
        filename: str | None = None,
        wake: bool | None = None,
        archive: bool | None = None,
    ) -> NoReturn:
        """Raise Unsupported: there is no server here that would answer."""
        raise not_here("files.download_url", "files.download copies it to this machine")

    def upload_url(
        self,
        path: str,
        *,
        expires_in_seconds: int | None = None,
        max_bytes: int | None = None,
        wake: bool | None = None,
    ) -> NoReturn:
        """Raise Unsupported: there is no server here that would answer."""
        raise not_here("files.upload_url", "files.upload copies it from this machine")

    def revoke_links(self) -> NoReturn:
        """Raise Unsupported: there are no links here."""
        raise not_here("files.revoke_links", "no link to a file was ever given")
