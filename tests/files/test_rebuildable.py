"""Which directories are rebuildable, by which command, and which are precious.

Does not cover: that foreign tools make what their table row says; those of Python that are at hand are run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from takeback.files.rebuildable import RULES, Rule, rebuild_command


def command(path: str, siblings: str = "", inside: str = "") -> str | None:
    return rebuild_command(path.encode(), set(siblings.encode().split()), set(inside.encode().split()))


@pytest.mark.parametrize(
    ("path", "siblings", "inside", "expected"),
    [
        ("node_modules", "package.json package-lock.json", "", "npm ci"),
        ("node_modules", "package.json yarn.lock", "", "yarn install --frozen-lockfile"),
        ("node_modules", "package.json yarn.lock .yarnrc.yml", "", "yarn install --immutable"),
        ("node_modules", "package.json pnpm-lock.yaml", "", "pnpm install --frozen-lockfile"),
        ("node_modules", "package.json bun.lock", "", "bun install --frozen-lockfile"),
        ("node_modules", "package.json", ".package-lock.json left-pad", "npm install"),
        ("web/app/node_modules", "package.json package-lock.json", "", "cd web/app && npm ci"),
        (".venv", "uv.lock pyproject.toml requirements.txt", "pyvenv.cfg", "uv sync --frozen"),
        (".venv", "poetry.lock pyproject.toml", "pyvenv.cfg", "poetry install"),
        (
            "my env",
            "requirements.txt",
            "pyvenv.cfg",
            "python3 -m venv 'my env' && 'my env'/bin/pip install -r requirements.txt",
        ),
        ("target", "Cargo.toml src", "CACHEDIR.TAG debug", "cargo build"),
        ("target", "pom.xml src", "classes", "mvn package"),
        ("build", "build.gradle gradlew", "classes libs", "./gradlew build"),
        ("build", "build.gradle.kts", "tmp", "gradle build"),
        (".gradle", "settings.gradle gradlew", "8.5", "./gradlew build"),
        ("out", "CMakeLists.txt", "CMakeCache.txt", "cmake -S . -B out && cmake --build out"),
        ("dist", "package.json pnpm-lock.yaml vite.config.ts", "index.js", "pnpm run build"),
        ("vendor", "composer.json composer.lock", "autoload.php", "composer install"),
        ("vendor", "go.mod go.sum", "modules.txt", "go mod vendor"),
        ("Pods", "Podfile Podfile.lock", "Manifest.lock", "pod install"),
        ("_build", "mix.exs", "dev", "mix compile"),
        ("deps", "mix.exs mix.lock", "plug", "mix deps.get"),
        (".terraform", ".terraform.lock.hcl main.tf", "providers", "terraform init"),
        ("obj", "", "project.assets.json", "dotnet restore"),
        ("src/__pycache__", "a.py", "a.cpython-311.pyc", "cd src && python3 -m compileall -q ."),
        (".mypy_cache", "", "CACHEDIR.TAG 3.11", "mypy ."),
    ],
)
def test_a_directory_made_by_a_tool_has_the_command_that_makes_it_again(
    path: str, siblings: str, inside: str, expected: str
) -> None:
    assert command(path, siblings, inside) == expected


@pytest.mark.parametrize(
    ("path", "siblings", "inside"),
    [
        ("node_modules", "", "left-pad"),
        ("node_modules", "package-lock.json", "left-pad"),
        ("packages/member/node_modules", "package.json", "left-pad"),
        (".venv", "", "pyvenv.cfg lib"),
        (".venv", "pyproject.toml", "pyvenv.cfg lib"),
        (".venv", "uv.lock", "lib"),
        (".venv", "requirements.txt", "pyvenv.cfg src"),
        ("site", "requirements.txt", "pyvenv.cfg manage.py"),
        ("target", "Cargo.toml", "notes"),
        ("target", "", "CACHEDIR.TAG"),
        ("build", "", "classes"),
        ("build", "package.json package-lock.json", "index.js"),
        ("dist", "pyproject.toml setup.py", "app-1.0.tar.gz"),
        ("vendor", "", "modules.txt"),
        ("vendor", "composer.json", "my-fork"),
        ("vendor", "Gemfile Gemfile.lock", "bundle assets"),
        ("third_party", "CMakeLists.txt", "CMakeCache.txt CMakeLists.txt src"),
        ("deps", "", "library"),
        ("_build", "conf.py", "html"),
        (".terraform", ".terraform.lock.hcl", "providers terraform.tfstate"),
        ("bin", "a.csproj", "Debug"),
        (".mypy_cache", "", "notes"),
        ("node_modules", "package.json package-lock.json", ".git"),
        (".env.d", "package.json package-lock.json uv.lock requirements.txt Cargo.toml", "key"),
        ("data", "package.json package-lock.json uv.lock requirements.txt Cargo.toml", "app.db"),
    ],
)
def test_a_directory_that_is_not_plainly_a_tools_work_is_precious(path: str, siblings: str, inside: str) -> None:
    assert command(path, siblings, inside) is None


def example(rule: Rule) -> tuple[bytes, set[bytes], set[bytes]]:
    """Return a directory for which the rule holds by the last name of every group."""
    name = rule.names[-1] if rule.names else b"some dir"
    return name, {group[-1] for group in rule.beside}, {group[-1] for group in rule.inside}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{b'|'.join(rule.names).decode()} {rule.command}")
def test_every_rule_needs_all_its_evidence_and_gives_way_to_a_persons_work(rule: Rule) -> None:
    name, siblings, inside = example(rule)
    assert rebuild_command(name, siblings, inside) is not None
    assert rule.holds(name, siblings, inside)
    for missing in siblings:
        assert not rule.holds(name, siblings - {missing}, inside)
    for missing in inside:
        assert not rule.holds(name, siblings, inside - {missing})
    for hand_made in (*rule.never, b".git"):
        assert not rule.holds(name, siblings, inside | {hand_made})


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{b'|'.join(rule.names).decode()} {rule.command}")
def test_no_rule_is_hidden_behind_an_earlier_one(rule: Rule) -> None:
    name, siblings, inside = example(rule)
    first = next(one for one in RULES if one.holds(name, siblings, inside))
    assert first is rule


@pytest.mark.parametrize(
    "above", [b"plain", b"two words", b"it's $HOME `x`", b"caf\xe9", b"new\nline", b"-rf", "ümlaut".encode(), b"a\\b/c"]
)
def test_the_command_goes_to_a_directory_of_any_name(tmp_path: Path, above: bytes) -> None:
    place = os.path.join(os.fsencode(tmp_path), above)
    os.makedirs(place)
    text = rebuild_command(above + b"/node_modules", [b"package.json", b"package-lock.json"], [])
    assert text is not None
    text.encode("ascii" if b"\xe9" in above else "utf-8")
    seen = subprocess.run(["bash", "-c", text.replace("npm ci", "pwd -P")], cwd=tmp_path, capture_output=True)
    assert seen.stdout == os.path.realpath(place) + b"\n"


def listed(path: Path) -> list[bytes]:
    return os.listdir(os.fsencode(path))


@pytest.mark.long
def test_a_real_virtual_environment_is_known_and_its_command_makes_it_again(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "my env"], check=True)
    text = rebuild_command(b"my env", listed(tmp_path), listed(tmp_path / "my env"))
    assert text is not None
    subprocess.run(["rm", "-r", tmp_path / "my env"], check=True)
    environment = {"PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}", "PIP_NO_INDEX": "1"}
    subprocess.run(["sh", "-ec", text], cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert (tmp_path / "my env" / "bin" / "pip").exists()


def test_a_real_bytecode_cache_is_made_again_by_its_command(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "a.py").write_text("x = 1\n")
    text = rebuild_command(b"lib/__pycache__", listed(tmp_path / "lib"), [])
    assert text is not None
    environment = {"PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-ec", text], cwd=tmp_path, env=environment, check=True)
    assert len(listed(tmp_path / "lib" / "__pycache__")) == 1


def test_a_real_mypy_cache_is_known(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    subprocess.run([sys.executable, "-m", "mypy", "a.py"], cwd=tmp_path, check=True, capture_output=True)
    assert rebuild_command(b".mypy_cache", listed(tmp_path), listed(tmp_path / ".mypy_cache")) == "mypy ."
