"""More of the kinds of rows 1, 2, 6, 8, 16, 22, 26 and 29: what a checkpoint holds and a restore puts back.

Does not cover: git's state (see test_same_kinds_git), the order of undo (see test_same_kinds_undo).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support import tree
from tests.support.cli import Home, Project
from tests.support.content import damage, fill_plain, fill_repository
from tests.support.immutable import immutable

KINDS = pytest.mark.parametrize("kind", ["repo", "plain"])


@pytest.fixture
def project(request: pytest.FixtureRequest, kind: str) -> Project:
    found: Project = request.getfixturevalue(kind)
    return found


# Changes that hide from stat data.

SLY = {
    "two files swapped": "mv a t; mv b a; mv t b",
    "two directories swapped": "mv da t; mv db da; mv t db",
    "same size, mtime set back": "cp -p a k; printf 2222 > a; touch -r k a; rm k",
    "rewritten in place by a map": "python3 -c \"import mmap, os; f = os.open('a', os.O_RDWR);"
    " m = mmap.mmap(f, 4); m[0:4] = b'4444'; m.flush()\"; touch -d @1500000000 a",
    "same inode, hard link kept": "ln a t; printf 3333 > t; rm t; touch -d @1500000000 a",
    "private only": "chmod 600 a",
    "group writable only": "chmod g+w b",
    "directory mode only": "chmod 700 da",
    "sticky only": "chmod +t db",
    "deep directory mode only": "chmod 711 da/deep/er",
    "link retargeted to the same length": "ln -sfn bb link",
    "file became an equal link": "mv a real; ln -s real a",
    "emptied": ": > a",
    "grown by a hole": "truncate -s 100000 a",
    "empty directory for empty file": "rm nothing; mkdir nothing",
    "empty file for empty directory": "rmdir hollow; : > hollow",
    "directory became a link to its copy": "mv da dz; ln -s dz da",
}


@KINDS
@pytest.mark.parametrize("verb", ["restore", "undo"])
@pytest.mark.parametrize("name", SLY)
def test_a_change_that_hides_is_seen_and_taken_back(project: Project, name: str, verb: str) -> None:
    for path, content in (("a", "1111"), ("b", "9999"), ("da/f", "da"), ("db/f", "db"), ("da/deep/er/f", "x")):
        project.write(path, content)
    project.write("nothing")
    os.makedirs(project.at("hollow"))
    os.symlink("aa", project.at("link"))
    project.age("a", "b", "da/f", "db/f", days=2000)
    os.utime(project.at("a"), ns=(1_500_000_000_000_000_000,) * 2)
    if project.exists(".git"):
        project.git("add", "-A")
        project.git("commit", "-q", "-m", "sly")
    kept = project.checkpoint()
    then = project.moment()
    if verb == "restore":
        project.sh(SLY[name])
        project.tb("restore", kept)
    else:
        project.step(SLY[name])
        project.tb("undo")
    assert then.changes() == []


@KINDS
@pytest.mark.long
def test_many_checkpoints_in_a_row_each_come_back_exactly(project: Project) -> None:
    moments = []
    for number in range(8):
        project.write("a", f"{number:04}")
        project.write(f"d{number}/f", str(number), mode=0o600 + number)
        if number > 2:
            project.sh(f"rm -r d{number - 3}")
        os.utime(project.at("a"), ns=(5, 5))
        moments.append((project.checkpoint(), project.moment()))
    assert len({kept for kept, _ in moments}) == len(moments)
    for kept, then in [*moments[::-1], *moments[::2], *moments[1::2]]:
        project.tb("restore", kept, "--yes")
        assert then.changes() == []


@KINDS
def test_a_checkpoint_of_an_unchanged_tree_is_the_earlier_one(project: Project) -> None:
    first = project.tb("checkpoint")
    again = project.tb("checkpoint")
    assert first["new"] is True and again["new"] is False and again["id"] == first["id"]


# Names that git itself will not have.


@pytest.mark.parametrize(
    "name", [b"git~1", b".GIT", b".git ", b".git.", b"GIT~1", b".gi\xe2\x80\x8ct", b".git::$INDEX"]
)
@pytest.mark.parametrize("is_directory", [False, True], ids=["file", "directory"])
def test_names_that_git_refuses_come_back_or_are_named_and_stay(repo: Project, name: bytes, is_directory: bool) -> None:
    path = os.path.join(b"src", name, b"inside") if is_directory else os.path.join(b"src", name)
    repo.write(path, "odd\n")
    repo.write("src/after-it", "x\n")
    made = repo.tb("checkpoint")
    then = repo.moment()
    damage(repo)
    repo.tb("restore", made["id"])
    assert then.changes() == []
    os.unlink(repo.at(path))
    repo.tb("restore", made["id"])
    top = os.path.join(b"src", name)
    assert then.changes() == [] or {path, top} & made.paths("not_covered")


@KINDS
@pytest.mark.parametrize("name", [b"%meta", b"files", b"state", b"index", b"refs", b"info", b"HEAD", b".takeback"])
def test_names_that_the_store_uses_itself_are_ordinary_names_here(project: Project, name: bytes) -> None:
    project.write(name, "a file\n", mode=0o600)
    project.write(os.path.join(b"d", name, b"in"), "in a directory\n")
    kept = project.checkpoint()
    then = project.moment()
    project.sh(b"rm -r -- '" + name + b"' d; mkdir -- '" + name + b"'")
    project.tb("restore", kept)
    assert then.changes() == []


def test_a_tree_of_great_depth_comes_back(repo: Project) -> None:
    deep = "/".join(["directory-of-some-length"] * 60)
    repo.write(f"{deep}/leaf", "leaf\n")
    kept = repo.checkpoint()
    then = repo.moment()
    repo.sh("rm -r directory-of-some-length")
    repo.tb("restore", kept)
    assert then.changes() == []


def test_a_path_longer_than_the_system_allows_at_once_stops_nothing(repo: Project) -> None:
    script = (
        "import os\nfor n in range(40):\n os.mkdir('d' * 200)\n os.chdir('d' * 200)\nopen('leaf', 'w').write('far')"
    )
    repo.home.call(repo.root, "python3", "-c", script)
    made = repo.tb("checkpoint", check=False)
    if made.code != 0:
        assert made.code == 1 and made.error, made.text
        return
    repo.write("README.md", "x\n")
    repo.tb("restore", made["id"])
    assert repo.read("README.md").startswith(b"# Project")
    assert repo.exists("d" * 200)


@KINDS
def test_a_directory_of_thousands_comes_back(project: Project) -> None:
    for number in range(3000):
        project.write(f"flat/{number}", str(number))
    kept = project.checkpoint()
    then = project.moment()
    project.sh("rm flat/*7; for n in $(seq 1 2 400); do echo x > flat/$n; done; touch flat/new")
    project.tb("restore", kept)
    assert then.changes() == []


# Where the project stands.


def test_a_project_reached_through_a_link_is_the_same_project(repo: Project, tmp_path: Path) -> None:
    os.symlink(repo.root, tmp_path / "alias")
    alias = repo.home.project(tmp_path / "alias")
    kept = alias.checkpoint()
    then = repo.moment()
    damage(repo)
    repo.tb("restore", kept)
    assert then.changes() == []
    damage(repo)
    repo.home.tb(os.fsencode(tmp_path / "alias" / "src"), "restore", kept)
    assert then.changes() == []


@pytest.mark.parametrize("name", [b"with space", b"ne\nwline", b"caf\xe9", "公共".encode(), b"-dash", b"quo'te\""])
@pytest.mark.parametrize("git", [True, False], ids=["repo", "plain"])
def test_the_folder_itself_may_have_any_name(home: Home, tmp_path: Path, name: bytes, git: bool) -> None:
    root = Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), name)))
    project = (fill_repository if git else fill_plain)(home, root)
    kept = project.checkpoint()
    then = project.moment()
    damage(project)
    project.tb("restore", kept)
    assert then.changes() == []
    project.step("rm -r src")
    project.tb("undo")
    assert then.changes() == []


def test_a_path_outside_is_refused_and_nothing_changes(repo: Project, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("x\n")
    kept = repo.checkpoint()
    damage(repo)
    then = repo.moment()
    for path in (str(outside), "../outside.txt", "src/../../outside.txt", "/etc/passwd"):
        refused = repo.tb("restore", kept, path, check=False)
        assert refused.code == 2 and refused.error == "outside-project", refused.text
    assert then.changes() == [] and outside.read_text() == "x\n"


def test_takebacks_own_data_inside_the_project_is_no_part_of_it(repo: Project) -> None:
    data = {"TAKEBACK_HOME": os.fsdecode(repo.at("own-data"))}
    made = repo.tb("checkpoint", env=data, check=False)
    if made.code != 0:
        assert made.error, made.text
        return
    repo.write("README.md", "x\n")
    repo.tb("restore", made["id"], env=data)
    assert repo.read("README.md").startswith(b"# Project")
    assert repo.tb("log", env=data).code == 0
    again = repo.tb("checkpoint", env=data)
    assert again["files"] < 60


def test_restoring_to_a_directory_needs_no_project_and_overwrites_none(repo: Project, tmp_path: Path) -> None:
    kept = repo.checkpoint()
    then = repo.tree()
    target = tmp_path / "full"
    target.mkdir()
    (target / "mine.txt").write_text("mine\n")
    refused = repo.home.tb(tmp_path, "restore", kept, "--to", str(target), check=False)
    assert (target / "mine.txt").read_text() == "mine\n"
    assert refused.code != 0 or not (target / "README.md").exists() or (target / "README.md").is_file()
    fresh = tmp_path / "fresh"
    repo.home.tb(tmp_path, "restore", kept, "--to", str(fresh))
    assert tree.difference(then, tree.fingerprint(fresh)) == []


# Ignored things.


def test_a_tracked_file_under_an_ignored_directory_comes_back(repo: Project) -> None:
    repo.write("build/kept.txt", "tracked though ignored\n", mode=0o600)
    repo.git("add", "-f", "build/kept.txt")
    repo.git("commit", "-q", "-m", "forced")
    for kind in ((), ("--no-state",)):
        then = repo.moment()
        kept = repo.checkpoint(*kind)
        repo.write("build/kept.txt", "changed\n")
        repo.tb("restore", kept)
        assert then.changes() == []


@pytest.mark.parametrize(
    "rules",
    [
        "/*\n!/src\n!/README.md\n!/.gitignore\n",
        "data/*\n!data/blob.bin\n",
        "*.py\n!app.py\n",
        "**/deep/**\n",
        "src/\n",
        "*\n",
    ],
)
@pytest.mark.parametrize("verb", ["restore", "undo"])
def test_ignore_rules_of_any_kind_change_nothing_about_exactness(repo: Project, rules: str, verb: str) -> None:
    repo.write(".gitignore", rules)
    repo.write("src/lib/deep/loose.txt", "l\n")
    repo.write("data/loose.bin", "l\n")
    kept = repo.checkpoint()
    then = repo.moment()
    if verb == "restore":
        damage(repo)
        repo.tb("restore", kept)
    else:
        repo.step("rm -rf src data; echo x > README.md; echo '*' > .gitignore; echo n > new")
        repo.tb("undo")
    assert then.changes() == []


@pytest.mark.parametrize(
    "change", ["rm .gitignore", "echo '*' > .gitignore", "echo '!*' > .gitignore", ": > .gitignore"]
)
@pytest.mark.parametrize("kind", [(), ("--no-state",)], ids=["state", "files"])
def test_a_step_that_changes_the_ignore_rules_loses_no_ignored_file(
    repo: Project, change: str, kind: tuple[str, ...]
) -> None:
    ignored = [b".env", b"build/out/app.o", b"debug.log"]
    kept = repo.checkpoint(*kind)
    then = repo.moment()
    repo.sh(change)
    repo.tb("restore", kept)
    assert then.changes() == []
    repo.step(change)
    repo.tb("undo")
    assert then.changes() == []
    assert all(repo.exists(path) for path in ignored)


def test_ignored_links_modes_and_empty_directories_come_back(repo: Project) -> None:
    repo.write("build/private/key", "k\n", mode=0o600)
    os.chmod(repo.at("build/private"), 0o700)
    os.symlink("../../..", repo.at("build/up"))
    os.symlink("up", repo.at("build/loop"))
    os.makedirs(repo.at("build/hollow/in"))
    kept = repo.checkpoint()
    then = repo.moment()
    repo.sh("rm -r build; mkdir build; ln -s / build/private")
    repo.tb("restore", kept)
    assert then.changes() == []


def test_a_rebuildable_tree_over_its_budget_is_named_with_its_command_and_never_deleted(repo: Project) -> None:
    repo.write(".gitignore", "node_modules/\n")
    repo.write("package.json", "{}\n")
    repo.write("package-lock.json", "{}\n")
    repo.home.set('tree_bytes = "10K"\ntree_files = 5')
    for number in range(50):
        repo.write(f"node_modules/pkg/{number}.js", "x" * 1000)
    made = repo.tb("checkpoint")
    assert b"node_modules" in {path.rstrip(b"/") for path in made.paths("not_covered")}
    assert "npm" in made.text
    there = tree.fingerprint(repo.at("node_modules"))
    repo.write("README.md", "x\n")
    repo.write("node_modules/pkg/new.js", "n\n")
    done = repo.tb("restore", made["id"])
    assert set(there) <= set(tree.fingerprint(repo.at("node_modules")))
    assert repo.exists("node_modules/pkg/new.js") or b"node_modules/pkg/new.js" in done.paths("deleted")


# Permission and the like, as an ordinary user.


def test_a_restore_that_may_not_write_refuses_before_it_changes_anything(user: Home) -> None:
    project = fill_repository(user, user.path.parent / "project")
    kept = project.checkpoint()
    project.sh("echo x > src/app.py; rm keys/id; echo x > README.md")
    os.chown(project.at("keys"), 0, 0)
    os.chmod(project.at("keys"), 0o755)
    if os.getuid() != 0:
        pytest.skip("only root can give a directory away")
    then = project.moment()
    refused = project.tb("restore", kept, check=False)
    assert refused.code == 1 and "keys" in refused.text
    assert then.changes() == []


def test_an_immutable_file_stops_a_restore_before_it_changes_anything(repo: Project) -> None:
    kept = repo.checkpoint()
    repo.sh("echo x > src/app.py; echo x > README.md; rm CHANGES")
    with immutable(repo.at("README.md")) as can:
        if not can:
            pytest.skip("this filesystem or account has no immutable files")
        then = repo.moment()
        refused = repo.tb("restore", kept, check=False)
        assert refused.code == 1 and "README.md" in refused.text
        assert then.changes() == []
    repo.tb("restore", kept)
    assert repo.read("README.md").startswith(b"# Project")


@KINDS
def test_a_hard_link_between_two_files_of_the_tree_does_not_tie_their_contents_in_a_restore(project: Project) -> None:
    project.write("one", "same\n")
    os.link(project.at("one"), project.at("two"))
    kept = project.checkpoint()
    then = project.moment()
    os.unlink(project.at("two"))
    project.write("two", "changed\n")
    project.tb("restore", kept)
    assert then.changes() == []
    project.write("one", "through the link?\n")
    project.tb("restore", kept, "one")
    assert project.read("one") == b"same\n"
