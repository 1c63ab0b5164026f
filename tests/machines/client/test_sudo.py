"""`sudo` in the real image on the real engine, which ignores set-user-ID bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from takeback.machines.client.sandbox import Sandbox
from tests.machines.client.conftest import World

Run = Callable[[str], str]


@pytest.fixture
def run(world: World) -> Iterator[Run]:
    """Run shell source as the user `runtime` of a sandbox and return what it wrote to stdout."""
    with Sandbox.create(client=world.client) as box:
        yield lambda script: box.exec(script, timeout_ms=120_000).stdout


def test_it_becomes_root_or_another_user_without_a_password(run: Run) -> None:
    said = run(
        "id -u; sudo id -u; sudo -n -u nobody id -un; sudo -u '#1000' id -u; sudo -g root id -g; sudo sudo id -u"
    )
    assert said.split() == ["1000", "0", "nobody", "1000", "0", "0"]


def test_streams_folder_and_exit_codes_are_the_commands(run: Run) -> None:
    said = run(
        "cd /tmp; echo in | sudo cat; sudo pwd; sudo sh -c 'exit 7'; echo $?; sudo sh -c 'kill -9 $$'; echo $?;"
        "sudo no-such-program 2>&1; echo $?; sudo head -c 300000 /dev/zero | wc -c;"
        " sudo tee /root/f <<< text; sudo cat /root/f"
    )
    assert said.splitlines() == [
        "in", "/tmp", "7", "137", "sudo: no-such-program: command not found", "1", "300000", "text", "text",
    ]  # fmt: skip


def test_the_environment_is_the_other_users_and_the_proxy_stays(run: Run) -> None:
    said = run(
        "export http_proxy=http://127.0.0.1:1 SECRET=x; sudo sh -c 'echo $HOME $USER $SUDO_USER $http_proxy [$SECRET]';"
        " sudo -E sh -c 'echo [$SECRET]'; sudo A=b sh -c 'echo $A'; sudo -i pwd; sudo -s echo shell"
    )
    assert said.splitlines() == ["/root root runtime http://127.0.0.1:1 []", "[x]", "b", "/root", "shell"]


def test_signals_reach_the_command_and_it_dies_with_its_caller(run: Run) -> None:
    said = run(
        "sudo sleep 100 & sleep 0.5; kill -TERM $!; wait $!; echo $?; sudo sleep 200 & sleep 0.5; kill -KILL $!;"
        " wait $! 2>/dev/null; sleep 0.5; pgrep -xc sleep; true"
    )
    assert said.split() == ["143", "0"]


def test_other_users_of_the_sandbox_may_not(run: Run) -> None:
    said = run("sudo -u nobody sudo id 2>&1; echo $?")
    assert said.splitlines() == ["sudo: user 65534 may not become another", "1"]


def test_apt_installs_a_package_file_as_root(run: Run) -> None:
    said = run(
        "mkdir -p /tmp/p/DEBIAN; printf 'Package: p\\nVersion: 1\\nArchitecture: all\\nMaintainer: n <n@n>\\n"
        "Description: d\\n' > /tmp/p/DEBIAN/control; dpkg-deb --build /tmp/p /tmp/p.deb >/dev/null;"
        " sudo apt-get install -y /tmp/p.deb >/dev/null 2>&1; echo $?; dpkg-query -W -f '${Status}' p"
    )
    assert said.splitlines() == ["0", "install ok installed"]


def test_nobody_inside_has_more_rights_than_it_takes_to_administer_a_system(run: Run) -> None:
    mine = "grep CapBnd /proc/self/status"
    said = run(f"sudo {mine}; {mine}; sudo mount -t tmpfs x /mnt || echo no")
    *bounds, last = said.splitlines()
    assert [int(line.split()[1], 16) >> 21 & 1 for line in bounds] == [0, 0]  # CAP_SYS_ADMIN
    assert last == "no"
