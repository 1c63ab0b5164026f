"""Inline code of other languages, looked into as far as is cheap: literal calls that delete, write, run or send.

Does not cover: understanding programs. Whatever is not plainly harmless is opaque, and so of class `machine`.
"""

from __future__ import annotations

from takeback.guard.command import Handler, Step
from takeback.guard.model import Deed, What
from takeback.guard.other_code import other
from takeback.guard.python_code import python
from takeback.guard.words import UNKNOWN

_LONGEST = 20_000
# Modules that are the program of the same name, or have a rule as `python-m-NAME`.
_MODULES = frozenset(
    "pip pip3 pytest venv virtualenv twine black ruff mypy isort flake8 pylint poetry tox nox coverage build "
    "http.server http json.tool "
    "unittest compileall py_compile this pydoc site sysconfig platform tokenize ast dis calendar timeit pyflakes "
    "uv pre_commit zipfile "
    "tarfile pipx jupyter uvicorn gunicorn flask celery alembic streamlit playwright pdm hatch pip_audit "
    "pipdeptree bandit ensurepip "
    "ansible conda mkdocs pyright autopep8 yapf base64 gzip uuid inspect locale cProfile pdb trace".split()
)


def inline(step: Step, language: str, *selectors: str) -> None:
    """Code in an option's value, an operand, or what the interpreter reads."""
    texts = step.select(*selectors)
    if not selectors:
        if step.stdin is None:
            step.deed(Deed.OPAQUE, f"{step.name} is opened, and what is typed into it is not seen", what=What.SHELL)
            return
        if step.stdin.text is None:
            if step.stdin.made_by[:1] == ("cat",):
                step.deed(Deed.OPAQUE)
            else:
                step.deed(Deed.OUTSIDE, f"{step.name} runs what another command writes")
            return
        texts = [step.stdin.text]
    for text in texts:
        if text.startswith(UNKNOWN):
            step.deed(Deed.OUTSIDE, f"{step.name} runs code that cannot be seen")
        elif len(text) > _LONGEST or not (python(step, text) if language == "python" else other(step, text, language)):
            step.deed(Deed.OPAQUE, f"{step.name} runs code that is not plainly harmless")


def module(step: Step) -> None:
    """`python -m NAME`: a program of that name."""
    name = (step.parsed.values("-m") or [""])[0]
    short = name.partition(".")[0] if name.partition(".")[0] in ("twine", "pytest", "pip", "mypy", "IPython") else name
    if short == "takeback" or name.startswith("takeback."):
        step.run(["takeback", *step.operands])
    elif short in _MODULES:
        name = f"python-m-{short}"
        step.run([name if name in step.walk.library else short, *step.operands])
    else:
        step.deed(Deed.OPAQUE, f"{step.name} -m {name} runs code that cannot be seen".replace(UNKNOWN, "?"))


HANDLERS: dict[str, Handler] = {"code": inline, "module": module}
