"""What a program inside must know to come out: the proxy variables.

Does not cover: programs that ask for none of them; they have no network, by intention.
"""

from __future__ import annotations

PORT = 10800


def proxy_environment(port: int = PORT) -> dict[str, str]:
    """Return the variables for every process of a sandbox; names are looked up outside (socks5h), never inside."""
    http, socks, direct = f"http://127.0.0.1:{port}", f"socks5h://127.0.0.1:{port}", "localhost,127.0.0.1,::1"
    found = {"HTTP_PROXY": http, "HTTPS_PROXY": http, "ALL_PROXY": socks, "NO_PROXY": direct}
    # curl reads http_proxy in lower case only (a CGI script's HTTP_PROXY is a header of the client's); others in upper
    found |= {name.lower(): value for name, value in found.items()}
    found["NODE_USE_ENV_PROXY"] = "1"  # node 24's own fetch
    return found
