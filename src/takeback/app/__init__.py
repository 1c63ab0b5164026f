"""What the faces call: a project (`project`), and what machines need (`machines`).

Does not cover: drawing anything (cli), or the operations themselves (`files`, `machines`).
"""
