"""What a sandbox may reach outside, decided on the host.

`rules` says what is allowed, `broker` carries it out for one sandbox, `forward` reaches a server inside.
"""
