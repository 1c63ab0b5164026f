"""The program that runs inside for `sandbox.interpreter`: cells of Python with variables that stay.

Its text is sent to a python3 in the sandbox, whatever version that is; nothing of it runs here. It reads requests as
lines of JSON from stdin; what a cell writes goes to stdout and stderr as it comes, and between that go records:

    RS {"k": "begin" | "result" | "error" | "end", "id": the request's, ...} LF

Does not cover: the caller's end (`interpreting`).
"""

import ast
import base64
import builtins
import json
import os
import signal
import sys
import traceback
from typing import Any

_MIME = (
    ("text/html", "_repr_html_"), ("text/markdown", "_repr_markdown_"), ("text/latex", "_repr_latex_"),
    ("image/svg+xml", "_repr_svg_"), ("image/png", "_repr_png_"), ("image/jpeg", "_repr_jpeg_"),
    ("application/json", "_repr_json_"),
)  # fmt: skip


def main() -> None:
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    sys.stdin = open(os.devnull)
    os.dup2(sys.stdin.fileno(), 0)
    names: dict[str, Any] = {"__name__": "__main__", "__builtins__": builtins}
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for count, line in enumerate(requests, start=1):
        request = json.loads(line)
        cell(request["id"], request["code"], count, names)


def cell(id: str, code: str, count: int, names: dict[str, Any]) -> None:
    both: list[Any] = [sys.__stdout__, sys.__stderr__]

    def say(kind: str, streams: list[Any], **fields: Any) -> None:
        for one in streams:
            one.write("\x1e" + json.dumps({"k": kind, "id": id, **fields}) + "\n")
            one.flush()

    def show(value: Any, main: bool = False) -> None:
        say("result", both[:1], data=bundle(value), main=main, refs=[])

    builtins.display = show  # type: ignore[attr-defined]
    say("begin", both)
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        name = f"<cell {count}>"
        tree = ast.parse(code, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, name, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), names)
            if value is not None:
                names["_"] = value
                show(value, main=True)
    except BaseException as error:
        inner = error.__traceback__ and error.__traceback__.tb_next
        text = "".join(traceback.format_exception(type(error), error, inner))
        say("error", both[:1], name=type(error).__name__, value=str(error), traceback=text)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.stdout.flush()
        sys.stderr.flush()
        say("end", both, count=count)


def bundle(value: Any) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for mime, method in _MIME:
        try:
            shown = getattr(value, method)()
        except Exception:
            continue
        if shown is not None:
            data[mime] = base64.b64encode(shown).decode() if isinstance(shown, bytes) else shown
    data["text/plain"] = repr(value)
    return data


if __name__ == "__main__":
    main()
