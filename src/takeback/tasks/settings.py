"""What can be set about tasks, with the defaults.

Does not cover: where the values come from (`takeback.config`).
"""

from __future__ import annotations

from dataclasses import dataclass

# Ignored files a task's tree begins with: secrets for local use, local databases with their logs.
_COPY = (
    ".env", ".env.*", "*.env", ".envrc", ".secrets", ".dev.vars", "local.settings.json", "*.db", "*.db3", "*.sqlite",
    "*.sqlite3", "*.db-wal", "*.sqlite-wal", "*.sqlite3-wal", "*.db-journal", "*.sqlite-journal", "*.sqlite3-journal",
)  # fmt: skip
_TESTS = (
    "test/**", "tests/**", "**/test/**", "**/tests/**", "**/__tests__/**", "spec/**", "**/spec/**", "test_*.*",
    "*_test.*", "*.test.*", "*.spec.*", "*_spec.*", "*Test.java", "*Tests.java", "*Test.kt", "*Tests.cs", "*Test.php",
    "*Tests.swift", "conftest.py", "tests.py", "Tests/**", "e2e/**", "cypress/**", "features/*.feature", "*.bats",
    "t/*.t", "Test[A-Z]*.java", "*TestCase.java", "*Tests.kt", "*Test.groovy", "*Test.scala", "*Test.cs",
    "*Spec.scala", "*Spec.kt", "*Spec.groovy",
)  # fmt: skip
_INSTRUCTIONS = (
    "CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", "AGENTS.override.md", "GEMINI.md", ".cursorrules", ".windsurfrules",
    ".clinerules", ".github/copilot-instructions.md", "CONVENTIONS.md", ".takeback.toml", ".claude/**", ".codex/**",
    ".gemini/**", ".opencode/**", ".cursor/**", ".aider.conf.yml", "opencode.json", ".mcp.json", "agents.md",
    "claude.md", ".clinerules/**", ".windsurf/rules/**", ".github/instructions/**",
)  # fmt: skip


@dataclass(frozen=True)
class TaskSettings:
    """Patterns are of paths (with a slash) or of names; times are in seconds."""

    setup: str = ""  # shell source that makes a new worktree ready, such as `npm ci`
    setup_timeout: float = 1800.0
    share: tuple[str, ...] = ()  # ignored directories a task's worktree uses in place, by a link
    clone: tuple[str, ...] = ()  # ignored directories it gets a copy of, by reflink where the filesystem can
    copy: tuple[str, ...] = _COPY  # ignored files it gets a copy of
    tests: tuple[str, ...] = _TESTS
    instructions: tuple[str, ...] = _INSTRUCTIONS
    allow: tuple[str, ...] = ()  # flags that do not fail an attempt
    check_timeout: float = 600.0
    limit_wait: float = 900.0  # how long a usage limit lasts when nobody says
