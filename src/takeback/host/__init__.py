"""The only code that runs processes, spells `git`, takes locks and writes files atomically."""
