"""A web server of this machine in threads of its own, so that blocking calls do not hold it up.

    /hello    says hello, of any host, to those who take it for a proxy
    /slow     says so for ever, ten times a second
    /kept     says on which of its connections, and keeps that one open
    /git/...  the files of a folder

Does not cover: servers inside a sandbox.
"""

from __future__ import annotations

import functools
import http.server
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class Server:
    """It counts the connections that are being served slowly."""

    def __init__(self, files: Path) -> None:
        self.slow = 0
        self.kept = 0  # connections that are, or were
        self.over = False
        handler = functools.partial(_Handler, of=self, directory=str(files))
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.address = f"127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def close(self) -> None:
        self.over = True
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(http.server.SimpleHTTPRequestHandler):
    def __init__(self, *arguments: object, of: Server, directory: str) -> None:
        self._of = of
        self._number = 0
        super().__init__(*arguments, directory=directory)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        if self.path.endswith("/hello"):  # as a proxy it gets a whole URL
            self._say(b"hello")
        elif self.path == "/kept":
            self._keep()
        elif self.path == "/slow":
            self._slowly()
        else:
            super().do_GET()

    def _say(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle(self) -> None:
        with suppress(ConnectionError):  # a pool that was reset
            super().handle()

    def _keep(self) -> None:
        if not self._number:
            self._of.kept += 1
            self._number = self._of.kept
        self.protocol_version = "HTTP/1.1"
        self._say(str(self._number).encode())
        self.close_connection = False

    def _slowly(self) -> None:
        self.send_response(200)
        self.end_headers()
        self._of.slow += 1
        try:
            while not self._of.over:
                self.wfile.write(b"hello\n")
                time.sleep(0.1)
        except OSError:
            pass
        finally:
            self._of.slow -= 1

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(files: Path) -> Iterator[Server]:
    """Serve for the block."""
    server = Server(files)
    try:
        yield server
    finally:
        server.close()
