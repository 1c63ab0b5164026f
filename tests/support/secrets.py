"""Secrets of the shapes their makers publish, made of a text, and the places in which others stand.

In halves, so that no scanner takes this file for one with keys in it.
"""

from __future__ import annotations

import base64
import random

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def shaped(rng: random.Random) -> list[str]:
    """Return one secret of each known shape."""

    def some(count: int, letters: str = LETTERS) -> str:
        return "".join(rng.choice(letters) for _ in range(count))

    header = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("=")
    return [
        *(f"gh{kind}_" + some(36) for kind in "pousr"),
        "github_pat" + "_" + some(22) + "_" + some(59),
        "glpat" + "-" + some(20),
        "sk" + "-" + some(48),
        "sk" + "-proj-" + some(60, LETTERS + "_-"),
        "sk" + "-ant-api03-" + some(90, LETTERS + "_-"),
        "sk" + "_live_" + some(24),
        "AKIA" + some(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"),
        "AIza" + some(35, LETTERS + "_-"),
        f"{header}.ey{some(40)}.{some(43, LETTERS + '_-')}",
        "xox" + "b-" + some(12, "0123456789") + "-" + some(24),
        "npm" + "_" + some(36),
        "pypi" + "-AgEIcHlwaS5vcmc" + some(60),
        "hf" + "_" + some(34),
        "dckr" + "_pat_" + some(27, LETTERS + "_-"),
    ]


def key_block(rng: random.Random) -> tuple[str, str]:
    """Return a private key, and a line of it that must not be seen."""
    line = "".join(rng.choice(LETTERS) for _ in range(64))
    return "-----BEGIN OPENSSH PRIVATE" + f" KEY-----\n{line}\n-----END OPENSSH PRIVATE" + " KEY-----", line


# `{}` is the secret, which has no shape of its own.
PLACES = [
    "git push https://user:{}@example.com/x.git",
    "curl -H 'Authorization: Bearer {}' https://example.com",
    "curl -H 'Authorization: {}' https://example.com",
    'curl -H "X-Api-Key: {}" https://example.com',
    "curl -u user:{} https://example.com",
    "curl 'https://example.com/?api_key={}&page=2'",
    'curl -d \'{{"password": "{}"}}\' https://example.com',
    'curl -d "{{\\"token\\":\\"{}\\"}}" https://example.com',
    "GITHUB_TOKEN={} gh pr create",
    "export AWS_SECRET_ACCESS_KEY='{}'",
    "DB_PASS={} ./run",
    "deploy --password {} --to prod",
    "deploy --db-password='{}' --to prod",
    "deploy --token {}",
    "mysql -uroot -p{} shop",
    "sshpass -p {} ssh host",
    "docker login -u me -p {} registry.example.com",
    "redis-cli -a {} ping",
    "openssl rsa -in key.pem -passin pass:{}",
    "kubectl create secret generic x --from-literal=key={}",
    "aws configure set aws_secret_access_key {}",
    "psql postgres://me:{}@db.example.com/shop",
    "password: {}",
    "access_token: {}",
    "password = '{}'",
]
