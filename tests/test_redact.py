"""What looks like a secret is not shown, and what is only named after one is."""

from __future__ import annotations

import random
import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from takeback.redact import redacted
from tests.support.secrets import PLACES, key_block, shaped

AROUND = ["{}", "echo {} | x", "'{}'", '"{}"', "a={};b", "x://{}", "({})", "see\n{}\nend", "--flag={}"]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(AROUND))
def test_a_secret_of_a_known_shape_is_blanked_wherever_it_stands(seed: int, around: str) -> None:
    for secret in shaped(random.Random(seed)):
        said = redacted(around.format(secret))
        assert secret not in said and secret[12:28] not in said, said


@pytest.mark.parametrize("place", PLACES)
def test_a_secret_is_known_by_its_place(place: str) -> None:
    said = redacted(place.format("hunter2-of-mine"))
    assert "hunter2" not in said and "***" in said, said


@pytest.mark.parametrize("place", PLACES)
def test_what_is_blanked_once_stays_as_it_is(place: str) -> None:
    once = redacted(place.format("hunter2-of-mine"))
    assert redacted(once) == once


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PLACES), min_size=1, max_size=8), st.sampled_from(["\n", " && ", "; "]))
def test_one_place_hides_no_other_whatever_the_quotes(places: list[str], between: str) -> None:
    lines = [f"printf '%s' {shlex.quote(place.format('hunter2-of-mine'))}" for place in places]
    assert "hunter2" not in redacted(between.join(lines))


def test_a_private_key_is_blanked_also_where_its_beginning_or_end_is_cut_off() -> None:
    block, line = key_block(random.Random(1))
    for text in (f"cat\n{block}\ndone", block[:80], block[40:]):
        assert line[:30] not in redacted(text) and line[-20:] not in redacted(text)
    assert redacted(f"cat\n{block}\ndone") == "cat\n***\ndone"


@pytest.mark.parametrize(
    "text",
    [
        "git commit -m 'rename token to key'",
        "invalid token: expected ')'",
        "max_tokens=4096 tokenizer=bpe",
        "deploy --token-file secrets/token --password-stdin",
        "PASSWORD=$PASSWORD GITHUB_TOKEN=$(gh auth token) make",
        "PWD=/srv/app OLDPWD=/srv ls",
        "ssh -p 22 git@example.com && ssh://git@example.com/x",
        "mysql -u root -p shop",
        "docker run -p 8080:80 nginx",
        "if token == expected: pass",
        "pip install sk-learn-extra-contrib scikit-learn",
        "npm_config_registry=https://registry.example.com npm ci",
        "docker build --secret id=npm,src=.npmrc .",
        "src/task-list/risk-analysis.py:12: author=me",
        "git push origin 0123456789abcdef0123456789abcdef01234567",
        "curl -u https://example.com/path",
        "the password is asked for",
    ],
)
def test_what_is_only_named_after_a_secret_stays(text: str) -> None:
    assert redacted(text) == text


@given(st.text(max_size=300))
def test_any_text_can_be_shown(text: str) -> None:
    assert isinstance(redacted(text), str)
