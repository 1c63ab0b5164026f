"""Settings edited as text: what is added can be taken out again, and every other byte stays."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeback.app.agents import jsontext

ITEM = {"matcher": "^x", "hooks": [{"type": "command", "command": "q"}], "ours": True}
PATHS = (("hooks", "PreToolUse"), ("hooks", "Stop"))


def is_ours(value: Any) -> bool:
    return isinstance(value, dict) and value.get("ours") is True


def there(text: str) -> str:
    for path in PATHS:
        text = jsontext.add(text, path, ITEM)
    return text


def back(text: str) -> str:
    for path in PATHS:
        text = jsontext.remove(text, path, is_ours)
    return text


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "{}\n",
        '{"a":1}',
        '{\n  "a": 1\n}\n',
        '{\n  "a": 1 // note\n}\n',
        '{\n    "hooks": {\n        "X": []\n    },\n    "b": 2\n}',
        '{"hooks":{"PreToolUse":[{"matcher":"Bash"}]},"z":1}',
        '{\n  "hooks": {\n    "PreToolUse": [\n      {"matcher": "Bash"} // mine\n    ]\n  }\n}\n',
        '{\n  "hooks": {"Stop": [{"hooks": []}]}, /* all */\n  "b": {"c": "\\u00e9 {[]}//"}\n}\n',
        '{\r\n  "a": [1,\r\n 2]\r\n}\r\n',
        '\ufeff{\n\t"a": true\n}\n',
    ],
)
def test_what_was_added_is_taken_out_to_the_byte(text: str) -> None:
    longer = there(text)
    value = jsontext.parse(longer).value
    assert [value["hooks"][name][-1] for _, name in PATHS] == [ITEM, ITEM]
    assert back(longer) == text


def test_comments_order_and_indentation_stay_beside_what_is_added() -> None:
    text = '{\n\t// first\n\t"b": 1, // one\n\t"a": [] /* two */\n}\n'
    longer = there(text)
    assert longer.startswith('{\n\t// first\n\t"b": 1, // one\n\t"a": [], /* two */\n\t"hooks": {\n\t\t"PreToolUse"')


@pytest.mark.parametrize("text", ["[", "{,}", '{"a" 1}', "{'a': 1}", '{"a": 1} x', "{" * 300, "nul"])
def test_what_is_no_json_is_named_with_its_line(text: str) -> None:
    with pytest.raises(ValueError, match="line 1 is no JSON"):
        jsontext.parse(text)


@pytest.mark.parametrize("text", ["[]", '{"hooks": []}', '{"hooks": {"PreToolUse": {}}}'])
def test_a_place_that_holds_something_else_is_not_overwritten(text: str) -> None:
    with pytest.raises(ValueError, match=r"hooks\.PreToolUse"):
        jsontext.add(text, PATHS[0], ITEM)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.text(max_size=6).filter(lambda key: key != "hooks"), values, max_size=4),
    st.sampled_from([None, 1, 4, "\t"]),
)
def test_any_settings_keep_their_value_beside_ours(settings: dict[str, Any], indent: int | str | None) -> None:
    text = json.dumps(settings, indent=indent)
    longer = there(text)
    assert json.loads(longer) == {**settings, "hooks": {"PreToolUse": [ITEM], "Stop": [ITEM]}}
    assert back(longer) == text
