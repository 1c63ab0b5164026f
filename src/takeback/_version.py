"""The version, in a module that imports nothing so that `takeback --version` is quick; pyproject.toml reads it too."""

VERSION = "0.1.0"
