"""The words of `takeback diff` are ids first, then paths."""

from __future__ import annotations

import pytest

from takeback.cli.diff import split


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ((), (None, None, ())),
        (("c1",), ("c1", None, ())),
        (("c1", "c2"), ("c1", "c2", ())),
        (("c1", "src"), ("c1", None, ("src",))),
        (("s7", "c2", "c3"), ("s7", "c2", ("c3",))),
        (("src", "c1"), (None, None, ("src", "c1"))),
        (("./c1",), (None, None, ("./c1",))),
    ],
)
def test_at_most_two_leading_words_are_ids(words: tuple[str, ...], meant: tuple[object, ...]) -> None:
    assert split(words) == meant
