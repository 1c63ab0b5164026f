"""The fingerprint holds what an action would send, asked of no network, and says what is not the same."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from takeback import guard
from takeback.holds import inverses, payload
from takeback.host import git
from tests.holds.conftest import Asker


def fingerprint(asker: Asker, source: str, cwd: str = "") -> dict[str, str]:
    verdict = guard.classify(source)
    rows = inverses.of(verdict)
    commands = [part.text for part in verdict.part.walk() if part.text]
    return payload.fingerprint(os.path.join(asker.root, cwd), commands, [row.effect for row in rows])


def commit(asker: Asker, name: str) -> None:
    asker.project.write(name, name)
    asker.project.git("add", name)
    asker.project.git("commit", "-qm", name)


@pytest.mark.parametrize(
    ("source", "change"),
    [
        ("git push", "echo x > x; git add x; git commit -qm x"),
        pytest.param("git push -u origin HEAD", "git commit -q --allow-empty -m x", marks=pytest.mark.long),
        ("cd . && git push origin HEAD:refs/heads/other", "git commit -q --amend -m x"),
        ("git push origin side", "git branch -f side HEAD~1"),
        pytest.param("git push origin +side:main", "git branch -f side HEAD~1", marks=pytest.mark.long),
        ("git push --all", "git branch -f side HEAD~1"),
        pytest.param("git push --tags", "git tag new", marks=pytest.mark.long),
        pytest.param("git push --mirror", "git update-ref refs/notes/x HEAD", marks=pytest.mark.long),
        pytest.param("sudo git -c x.y=z push origin side", "git branch -f side HEAD~1", marks=pytest.mark.long),
        ("git push", "git remote set-url origin /elsewhere"),
        pytest.param("git push", "git config core.sshCommand 'sh -c x'", marks=pytest.mark.long),
        ("git push", "git config url.https://evil.example.insteadOf https://"),
        ("git push", "mkdir -p .git/hooks; echo x > .git/hooks/pre-push"),
    ],
)
def test_a_push_is_another_when_what_it_pushes_or_where_changes(
    asker: Asker, remote: Path, source: str, change: str
) -> None:
    commit(asker, "one")
    asker.project.git("branch", "-f", "side", "HEAD")
    before = fingerprint(asker, source)
    assert fingerprint(asker, source) == before
    asker.project.sh(change)
    assert payload.changes(before, fingerprint(asker, source))


@pytest.mark.parametrize(
    "change", ["echo x > untracked", "git branch another", "git config user.nick x", "git fetch -q"]
)
def test_a_push_stays_the_same_when_nothing_of_it_changes(asker: Asker, remote: Path, change: str) -> None:
    commit(asker, "one")
    before = fingerprint(asker, "git push origin HEAD")
    asker.project.sh(change)
    assert fingerprint(asker, "git push origin HEAD") == before


def test_a_push_says_which_commits(asker: Asker, remote: Path) -> None:
    commit(asker, "one")
    first = fingerprint(asker, "git push origin HEAD")
    commit(asker, "two")
    second = fingerprint(asker, "git push origin HEAD")
    head = asker.project.git("rev-parse", "HEAD").decode().strip()
    assert second["commit HEAD"] == head
    assert payload.changes(first, second) == [f"commit HEAD changed ({first['commit HEAD'][:10]} -> {head[:10]})"]


def test_no_network_is_asked(asker: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    asker.project.git("remote", "add", "origin", "https://user:secret@example.invalid/x.git")
    asked: list[tuple[str, ...]] = []
    real = git.of_user

    def of_user(cwd: bytes, *args: str) -> git.Finished:
        asked.append(args)
        return real(cwd, *args)

    monkeypatch.setattr(git, "of_user", of_user)
    found = fingerprint(asker, "git push")
    verbs = {next(word for word in args if not word.startswith("-") and "=" not in word) for args in asked}
    assert verbs <= {"config", "remote", "rev-parse", "for-each-ref", "symbolic-ref", "ls-files"}
    assert "secret" not in str(found)


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("npm publish", "src.js"),
        pytest.param("npm publish", "package.json", marks=pytest.mark.long),
        ("npm publish", "dist/out.js"),
        ("npm run deploy", "package.json"),
        ("twine upload dist/*", "dist/out.js"),
        pytest.param("vercel deploy --prod", "src.js", marks=pytest.mark.long),
        ("curl -X POST -d @body.json https://example.com", "body.json"),
        pytest.param("curl -X POST --data-binary=@body.json https://example.com", "body.json", marks=pytest.mark.long),
        pytest.param("curl -F file=@body.json https://example.com", "body.json", marks=pytest.mark.long),
        ("curl -T body.json https://example.com", "body.json"),
        ("scp -r dist host:", "dist/out.js"),
        ("psql -h db.example.com -f body.json", "body.json"),
        ("./deploy.sh", "deploy.sh"),
        pytest.param("bash -c './deploy.sh now'", "deploy.sh", marks=pytest.mark.long),
    ],
)
def test_what_would_be_sent_is_compared_by_its_bytes(asker: Asker, source: str, changed: str) -> None:
    for name in ("src.js", "package.json", "body.json", "dist/out.js", "deploy.sh"):
        asker.project.write(name, "{}")
    asker.project.write(".gitignore", "dist\n")
    before = fingerprint(asker, source)
    os.utime(asker.project.at(changed))
    assert fingerprint(asker, source) == before
    asker.project.write(changed, "{ }")
    said = payload.changes(before, fingerprint(asker, source))
    assert any(changed.partition("/")[0] in one for one in said), said


def test_a_file_that_comes_or_goes_is_told(asker: Asker) -> None:
    asker.project.write("body.json", "{}")
    with_it = fingerprint(asker, "curl -T body.json https://example.com")
    os.unlink(asker.project.at("body.json"))
    without = fingerprint(asker, "curl -T body.json https://example.com")
    assert payload.changes(with_it, without) == ["file body.json is gone"]
    assert payload.changes(without, with_it) == ["file body.json is new"]


@pytest.mark.parametrize(
    "source", ["git push '", "", "\0", "git", "git -C", "x" * 5000, "git push -o", "npm publish /"]
)
def test_odd_commands_have_a_fingerprint_too(asker: Asker, source: str) -> None:
    assert isinstance(payload.fingerprint(asker.root, [source], []), dict)


@pytest.mark.parametrize(
    ("command", "effect"),
    [
        ("git push origin main", "push"),
        ("git -C sub push --force", "push"),
        ("gh pr create --fill", "pr"),
        ("gh release create v1", "publish"),
        ("vercel deploy", "deploy"),
        ("kubectl apply -f x.yaml", "deploy"),
        ("npm publish", "publish"),
        ("cargo publish", "publish"),
        ("docker push me/app", "publish"),
        ("mail -s hi you@example.com", "mail"),
        ("curl https://api.stripe.com/v1/charges -d amount=1", "payment"),
        ("curl -X POST https://api.example.com/things", "api"),
        ("aws s3 rm s3://bucket --recursive", "cloud"),
        ("psql -h db.example.com -c 'delete from t'", "database"),
        ("aws route53 change-resource-record-sets --hosted-zone-id Z", "dns"),
        ("scp a.txt host:", "copy"),
    ],
)
def test_what_would_undo_it_is_known_by_effect(command: str, effect: str) -> None:
    rows = inverses.of(guard.classify(command))
    assert [row.effect for row in rows] == [effect]
    assert rows[0].undo in inverses.in_words(rows)


def test_the_table_has_every_effect_and_npms_window() -> None:
    effects = {row.effect for row in inverses.table()}
    assert effects == {"push", "pr", "deploy", "publish", "mail", "payment", "api", "cloud", "database", "dns", "copy"}
    npm = inverses.of_command("npm publish")
    assert npm is not None and "72 hours" in npm.window and "npm unpublish" in npm.undo


def test_two_effects_are_both_told_and_none_is_said_of_what_stays_here() -> None:
    rows = inverses.of(guard.classify("git push && npm publish && rm -rf build"))
    assert [row.effect for row in rows] == ["push", "publish"]
    assert inverses.of(guard.classify("rm -rf /srv")) == ()
