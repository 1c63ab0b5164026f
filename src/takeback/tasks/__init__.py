"""One task: attempts of an agent, checks, exact rollback, one commit that can be reverted.

Does not cover: many tasks in a queue, or side by side.
"""
