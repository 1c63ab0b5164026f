"""Real agent programs with a scripted model: their tools and hooks are theirs, only the replies are written down."""
