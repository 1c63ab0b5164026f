"""The command line: one file per command, thin over `takeback.app`.

Does not cover: any decision about a project. A command parses, makes one call into `app`, and draws the typed result.
"""
