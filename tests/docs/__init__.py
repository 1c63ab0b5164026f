"""Tests of what the documents promise: the demo, the tutorial, the recipe, the links."""
