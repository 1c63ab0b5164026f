"""Tests of the command line, one file per module of `takeback.cli`."""
