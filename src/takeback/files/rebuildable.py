"""Which directories a tool makes again, and by which command: a table, so that a checkpoint need not copy them.

Does not cover: whether the directory is ignored, or over its budget (`ignored`). Whatever is not plainly the work of a
tool, with the file it is made from still beside it, is precious: packages installed by hand into a virtual
environment, releases built from other versions (`dist` of Python), a `vendor` or `build` somebody wrote.
"""

from __future__ import annotations

import shlex
from collections.abc import Container
from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """A directory of one of these `names` (any when empty) is made again by `command`, run in the directory above.

    `beside` and `inside` are groups of names: of each group one must be there. `never` are names inside that
    show a person's work, as `.git` always does. `{dir}` in the command is the directory's name.
    """

    names: tuple[bytes, ...]
    command: str
    beside: tuple[tuple[bytes, ...], ...] = ()
    inside: tuple[tuple[bytes, ...], ...] = ()
    never: tuple[bytes, ...] = ()

    def holds(self, name: bytes, siblings: Container[bytes], inside: Container[bytes]) -> bool:
        """Whether the rule is about a directory with this name and these neighbours."""
        return (
            (not self.names or name in self.names)
            and all(any(one in siblings for one in group) for group in self.beside)
            and all(any(one in inside for one in group) for group in self.inside)
            and not any(one in inside for one in (*self.never, b".git"))
        )


_PACKAGE = (b"package.json",)
_VENV = ((b"pyvenv.cfg",),)
# `pip install -e git+...` clones into `src`; the rest shows a project that lives in its own environment.
_IN_VENV = (b"src", b"pyproject.toml", b"setup.py", b"requirements.txt", b"manage.py", b"package.json")
_PYTHON = (b"pyproject.toml", b"setup.py", b"setup.cfg")
_GRADLE = (b"build.gradle", b"build.gradle.kts", b"settings.gradle", b"settings.gradle.kts")
_BUNDLERS = (
    b"angular.json",
    b"gulpfile.js",
    b"tsconfig.json",
    *(
        b"%b.config.%b" % (tool, suffix)
        for tool in (b"astro", b"craco", b"rollup", b"tsup", b"vite", b"vue", b"webpack")
        for suffix in (b"js", b"ts", b"mjs", b"cjs", b"mts")
    ),
)
# What a person keeps in `vendor` of a Ruby project besides the bundle.
_VENDORED = (b"assets", b"gems", b"javascript", b"plugins", b"stylesheets", b"cache")

# The first rule that holds decides; lock files come before what names versions loosely.
RULES: tuple[Rule, ...] = (
    # JavaScript
    Rule((b"node_modules",), "npm ci", (_PACKAGE, (b"package-lock.json", b"npm-shrinkwrap.json"))),
    Rule((b"node_modules",), "yarn install --immutable", (_PACKAGE, (b"yarn.lock",), (b".yarnrc.yml",))),
    Rule((b"node_modules",), "yarn install --frozen-lockfile", (_PACKAGE, (b"yarn.lock",))),
    Rule((b"node_modules",), "pnpm install --frozen-lockfile", (_PACKAGE, (b"pnpm-lock.yaml",))),
    Rule((b"node_modules",), "bun install --frozen-lockfile", (_PACKAGE, (b"bun.lock", b"bun.lockb"))),
    # without a lock file only the manager that made it knows it: each leaves its own mark inside
    Rule((b"node_modules",), "npm install", (_PACKAGE,), ((b".package-lock.json",),)),
    Rule((b"node_modules",), "yarn install", (_PACKAGE,), ((b".yarn-integrity", b".yarn-state.yml"),)),
    Rule((b"node_modules",), "pnpm install", (_PACKAGE,), ((b".modules.yaml",),)),
    Rule((b"bower_components",), "bower install", ((b"bower.json",),)),
    Rule((b".next",), "npx next build", (_PACKAGE,), ((b"BUILD_ID", b"build-manifest.json", b"server", b"cache"),)),
    Rule((b".nuxt",), "npx nuxt prepare", (_PACKAGE, (b"nuxt.config.ts", b"nuxt.config.js", b"nuxt.config.mjs"))),
    Rule((b".svelte-kit",), "npx svelte-kit sync", (_PACKAGE, (b"svelte.config.js", b"svelte.config.ts"))),
    Rule((b".angular",), "npx ng build", ((b"angular.json",),), ((b"cache",),)),
    Rule((b".parcel-cache",), "npx parcel build", (_PACKAGE,)),
    Rule((b".turbo",), "npx turbo run build", ((b"turbo.json",),)),
    Rule((b"cdk.out",), "npx cdk synth", ((b"cdk.json",),)),
    *(
        Rule((b"build", b"dist"), f"{manager} run build", (_PACKAGE, lock, _BUNDLERS))
        for manager, lock in (
            ("npm", (b"package-lock.json", b"npm-shrinkwrap.json")),
            ("yarn", (b"yarn.lock",)),
            ("pnpm", (b"pnpm-lock.yaml",)),
            ("bun", (b"bun.lock", b"bun.lockb")),
        )
    ),
    # Python
    Rule((b".venv",), "uv sync --frozen", ((b"uv.lock",),), _VENV, _IN_VENV),
    Rule((b".venv",), "poetry install", ((b"poetry.lock",),), _VENV, _IN_VENV),
    Rule((b".venv",), "pdm sync", ((b"pdm.lock",),), _VENV, _IN_VENV),
    Rule((b".venv",), "PIPENV_VENV_IN_PROJECT=1 pipenv sync", ((b"Pipfile.lock",),), _VENV, _IN_VENV),
    Rule(
        (),
        "python3 -m venv {dir} && {dir}/bin/pip install -r requirements.txt",
        ((b"requirements.txt",),),
        _VENV,
        _IN_VENV,
    ),
    Rule(
        (),
        "conda env create --prefix ./{dir} --file environment.yml",
        ((b"environment.yml",),),
        ((b"conda-meta",),),
        _IN_VENV,
    ),
    Rule((b"__pypackages__",), "pdm sync", ((b"pdm.lock",),)),
    Rule((b"__pycache__",), "python3 -m compileall -q ."),
    Rule((b".tox",), "tox run --notest", ((b"tox.ini", b"tox.toml", *_PYTHON),)),
    Rule((b".nox",), "nox --install-only", ((b"noxfile.py",),)),
    Rule((b".mypy_cache",), "mypy .", (), ((b"CACHEDIR.TAG",),)),
    Rule((b".pytest_cache",), "python3 -m pytest", (), ((b"CACHEDIR.TAG",),)),
    Rule((b".ruff_cache",), "ruff check .", (), ((b"CACHEDIR.TAG",),)),
    Rule((b".eggs",), "python3 setup.py --version", ((b"setup.py",),), ((b"README.txt",),)),
    Rule((b"build",), "python3 setup.py build", ((b"setup.py",),), ((b"lib",),), (b"CMakeCache.txt",)),
    # compiled languages
    Rule((b"target",), "cargo build", ((b"Cargo.toml",),), ((b"CACHEDIR.TAG", b".rustc_info.json"),)),
    Rule(
        (b"target",),
        "mvn package",
        ((b"pom.xml",),),
        ((b"classes", b"maven-status", b"maven-archiver", b"generated-sources", b"test-classes"),),
    ),
    Rule((b"target",), "sbt compile", ((b"build.sbt",),), ((b"streams", b"global-logging"),)),
    *(
        Rule(names, f"{gradle} build", beside, inside)
        for gradle, wrapper in (("./gradlew", ((b"gradlew",),)), ("gradle", ()))
        for names, beside, inside in (
            ((b".gradle",), (_GRADLE, *wrapper), ()),
            ((b"build",), (_GRADLE, *wrapper), ((b"classes", b"intermediates", b"kotlin", b"tmp"),)),
        )
    ),
    Rule(
        (),
        "cmake -S . -B {dir} && cmake --build {dir}",
        ((b"CMakeLists.txt",),),
        ((b"CMakeCache.txt",),),
        (b"CMakeLists.txt",),
    ),
    Rule(
        (),
        "meson setup {dir} && meson compile -C {dir}",
        ((b"meson.build",),),
        ((b"meson-private",),),
        (b"meson.build",),
    ),
    Rule((b"zig-cache", b".zig-cache", b"zig-out"), "zig build", ((b"build.zig",),)),
    Rule(
        (b".build",), "swift build", ((b"Package.swift",),), ((b"workspace-state.json", b"checkouts", b"debug.yaml"),)
    ),
    Rule((b"obj",), "dotnet restore", (), ((b"project.assets.json",),)),
    Rule((b"dist-newstyle",), "cabal build all", (), ((b"cache",),)),
    Rule((b".stack-work",), "stack build", ((b"stack.yaml",),)),
    Rule((b"_build",), "mix compile", ((b"mix.exs",),), ((b"dev", b"prod", b"test"),)),
    Rule((b"_build",), "dune build", ((b"dune-project",),), ((b"log", b"default", b".db"),)),
    Rule((b"deps",), "mix deps.get", ((b"mix.exs",), (b"mix.lock",))),
    Rule((b"elm-stuff",), "elm make src/Main.elm --output=/dev/null", ((b"elm.json",),)),
    # packages of other languages
    Rule((b"vendor",), "composer install", ((b"composer.json",),), ((b"autoload.php",),)),
    Rule((b"vendor",), "go mod vendor", ((b"go.mod",),), ((b"modules.txt",),)),
    Rule(
        (b"vendor",),
        "bundle config set --local path vendor/bundle && bundle install",
        ((b"Gemfile",), (b"Gemfile.lock",)),
        ((b"bundle",),),
        _VENDORED,
    ),
    Rule((b"Pods",), "pod install", ((b"Podfile",), (b"Podfile.lock",)), ((b"Manifest.lock",),)),
    Rule((b".dart_tool",), "flutter pub get", ((b"pubspec.yaml",),), ((b"flutter_build", b"flutter_gen"),)),
    Rule((b".dart_tool",), "dart pub get", ((b"pubspec.yaml",),), ((b"package_config.json",),)),
    # `terraform.tfstate` and `environment` hold the chosen backend and workspace, which `init` would not know
    Rule(
        (b".terraform",),
        "terraform init",
        ((b".terraform.lock.hcl",),),
        ((b"providers", b"modules"),),
        (b"terraform.tfstate", b"environment"),
    ),
)


def rebuild_command(path: bytes, siblings: Container[bytes], inside: Container[bytes]) -> str | None:
    """Return the shell command, for the project's root, that makes the directory `path` again; None: it is precious.

    `path` is relative to the root; `siblings` are the names beside the directory, `inside` those in it.
    """
    above, _, name = path.rpartition(b"/")
    for rule in RULES:
        if rule.holds(name, siblings, inside):
            command = rule.command.replace("{dir}", _quote(name))
            return f"cd {_quote(above)} && {command}" if above else command
    return None


def _quote(path: bytes) -> str:
    try:
        text = path.decode()
    except UnicodeDecodeError:
        text = ""
    if text and text.isprintable():
        quoted = shlex.quote(text)
        return f"./{quoted}" if text.startswith("-") else quoted
    # $'..' is understood by bash, zsh, ksh and the next POSIX: it can hold any byte.
    body = "".join(chr(byte) if 32 < byte < 127 and byte not in b"'\\" else f"\\{byte:03o}" for byte in path)
    return f"{'./' if path.startswith(b'-') else ''}$'{body}'"
