"""`takeback-hook`: what agents call before and after their steps; one module a host, all in front of `app.hooked`.

It never answers "allow", which would lift the host's own questions. Does not cover: what is done with a step.
"""
