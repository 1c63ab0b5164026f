"""What holds agents back is marked by any spelling that reaches it, and ordinary work is not."""

from __future__ import annotations

import json

import pytest

from takeback.guard import Class, Context, classify, classify_argv, classify_tool

# One a line, as an agent would write them.
SPELLINGS = r"""
takeback approve h3
tb approve h3
takeback deny h3 --because x
takeback trust
takeback gc
takeback pause
takeback pause 10m
takeback uninstall
takeback resume
takeback --json approve h3
takeback --project /x approve h3
takeback -q approve h3
takeback --project=/x approve h3
takeback -v --json gc
python -m takeback approve h3
python3 -m takeback approve h3
python3.12 -m takeback gc
python3 -mtakeback approve h3
python3 -I -m takeback pause
python3 -m takeback.__main__ pause
/usr/bin/takeback approve h3
/home/user/.local/bin/takeback approve h3
~/.local/bin/tb approve h3
./takeback approve h3
/opt/tools/takeback approve h3
/home/user/venv/bin/takeback approve h3
.venv/bin/takeback pause
venv/bin/python -m takeback pause
/home/user/.local/share/uv/tools/takeback/bin/takeback approve h3
/home/user/.local/share/pipx/venvs/takeback/bin/python -m takeback gc
env takeback approve h3
env -i takeback approve h3
env -u TAKEBACK_STEP takeback approve h3
env X=1 tb approve h3
sh -c 'takeback approve h3'
bash -lc "takeback approve h3"
echo h3 | xargs takeback approve
echo takeback approve h3 | sh
printf 'approve h3' | xargs takeback
xargs -n1 takeback approve < ids
nohup takeback approve h3 &
setsid takeback approve h3
script -qc 'takeback approve h3' /dev/null
script -q /dev/null takeback approve h3
script -q -c "takeback approve h3"
unbuffer takeback approve h3
expect -c 'spawn takeback approve h3; interact'
tmux new-session -d 'takeback approve h3'
tmux new -d takeback approve h3
tmux send-keys -t 0 'takeback approve h3' Enter
screen -dm takeback approve h3
screen -dmS x sh -c 'takeback approve h3'
at now <<< 'takeback approve h3'
echo 'takeback approve h3' | at now
systemd-run --user takeback approve h3
systemd-run --user --pty takeback approve h3
socat EXEC:'takeback approve h3',pty,ctty,setsid -
uvx takeback approve h3
uv run takeback approve h3
uv tool run takeback approve h3
pipx run takeback approve h3
uv run python -m takeback approve h3
poetry run takeback approve h3
nix run nixpkgs#takeback -- approve h3
T=takeback; $T approve h3
A=approve; takeback $A h3
takeback $X h3
tb "app""rove" h3
take\back approve h3
'takeback' 'approve' h3
$(which takeback) approve h3
`which tb` approve h3
$(command -v takeback) approve h3
command takeback approve h3
exec takeback approve h3
builtin command takeback gc
sudo takeback gc
time takeback approve h3
timeout 5 takeback approve h3
timeout 5 env -i sh -c 'exec tb approve h3'
find . -maxdepth 0 -exec takeback approve h3 \;
watch takeback approve h3
parallel takeback approve ::: h3
alias t=takeback; t approve h3
f() { takeback "$@"; }; f approve h3
eval "takeback approve h3"
eval takeback approve h3
coproc takeback approve h3
git -c alias.x='!takeback approve h3' x
git -c core.pager='takeback approve h3' log
ssh localhost takeback approve h3
docker exec x takeback approve h3
python3 -c 'import takeback; takeback.Project.open().gc()'
python3 -c 'from takeback.app import holding'
python3 -c 'from takeback.__main__ import main; main()' approve h3
python3 -c "import subprocess; subprocess.run(['takeback','approve','h3'])"
python3 -c "import os; os.system('tb approve h3')"
python3 -c "import runpy; runpy.run_module('takeback')"
node -e "require('child_process').execSync('takeback approve h3')"
perl -e 'system("takeback approve h3")'
ruby -e 'system("takeback gc")'
awk 'BEGIN{system("takeback approve h3")}'
make -f - <<< 'x: ; takeback approve h3'
TAKEBACK_HOME=/tmp/x ls
TAKEBACK_HOME=/tmp/x takeback run -- git push
env TAKEBACK_HOME=/x git push
export TAKEBACK_X=1
declare -x TAKEBACK_HOME=/x
unset TAKEBACK_STEP
env -u TAKEBACK_STEP ls
env --unset=TAKEBACK_STEP ls
env --unset TAKEBACK_HOME ls
unset CLAUDECODE
env -u CLAUDECODE ls
CLAUDECODE= ls
echo x > .takeback.toml
cp x .takeback.toml
mv .takeback.toml y
rm .takeback.toml
git checkout HEAD -- .takeback.toml
git restore .takeback.toml
ln -sf x .takeback.toml
echo x > ~/.local/share/takeback/projects/k/holds/h3.json
sed -i s/waiting/approved/ ~/.local/share/takeback/projects/*/holds/h3.json
rm -rf ~/.local/share
rm -rf ~/.local
mv ~/.local/share/takeback /tmp/x
chmod 000 ~/.local/share/takeback
ln -s ~/.local/share/takeback x
echo x >> ~/.config/takeback/config.toml
rm -rf ~/.config/takeback
rm -rf ~/.config
echo x > $HOME/.config/takeback/rules/x.rules
echo x > "$XDG_CONFIG_HOME/takeback/config.toml"
tee .claude/settings.json < x
jq . x > .claude/settings.local.json
echo x > ~/.claude/settings.json
sed -i s/a/b/ ~/.claude.json
rm -rf ~/.claude
rm -rf .claude
mv .claude .claude2
echo > .codex/hooks.json
echo > ~/.codex/config.toml
echo > .gemini/settings.json
rm ~/.gemini/settings.json
echo > .opencode/plugins/takeback.js
echo > .opencode/plugin/x.js
echo > ~/.config/opencode/plugins/x.js
echo > opencode.json
claude --settings '{"disableAllHooks":true}' -p x
CLAUDE_CONFIG_DIR=/tmp/x claude -p x
CODEX_HOME=/tmp/x codex exec x
pip uninstall takeback
pip uninstall -y takeback
pip3 uninstall -y takeback
uv tool uninstall takeback
pipx uninstall takeback
uv pip uninstall takeback
rm ~/.local/bin/takeback
rm $(which takeback-hook)
rm -f ~/.local/bin/takeback-hook
chmod -x ~/.local/bin/takeback-hook
killall takeback-hook
pkill takeback
pkill -f takeback
takeback sandbox pause x
crontab - <<< '* * * * * takeback approve h3'
cp b .takebac*.toml
echo x > .takebac?.toml
cat b | tee .take*
rm .t*
mv .take* z
sed -i s/hold/allow/ .takeb*
rm ./.[t]akeback.toml
rm .claude/set*
rm -rf .cl*
rm -rf ~/.config/take*
echo > ~/.config/t*/config.toml
truncate -s0 .takeb*
rm .mcp.*
"""

ORDINARY = r"""
takeback
takeback status
takeback log
takeback holds --all
takeback undo --dry-run
takeback run -- make test
takeback gc --dry-run
takeback approve --help
takeback explain 'git push'
takeback sandbox ls
cat .takeback.toml .claude/settings.json
git add .takeback.toml
git commit -m 'Explain takeback approve and takeback gc'
grep -rn 'takeback approve' docs
echo takeback approve h3
rg "takeback (gc|pause)" docs
git checkout main
git restore src/app.py
ln -s src/app.py app
pip install takeback
pip uninstall left-pad
uv tool install takeback
pkill -f node
claude -p hello
chmod -x run.sh
rm -rf build node_modules
rm -rf ~/.cache/pip
rm *.json
rm -rf *
rm -f .coverage*
cat x >> edit/.[!.]*
sed -i s/a/b/ .??*
rm -rf [a-z]*
sed -i s/a/b/ src/*.js
rm -rf .cache/* .next/*
rm .claude/worktrees/*
cp .t*.toml b
rm src/*/bin/*
python3 -c "import takeback; takeback.Sandbox.create()"
tb_test=1 make
pytest tests/takeback
npm run pause
kubectl rollout pause deployment/x
echo x > notes.toml
"""


@pytest.mark.parametrize("source", SPELLINGS.strip().splitlines())
def test_reaching_for_what_holds_agents_back_is_marked(source: str) -> None:
    assert classify(source).brake


@pytest.mark.parametrize("source", ORDINARY.strip().splitlines())
def test_ordinary_work_is_not(source: str) -> None:
    assert not classify(source).brake


@pytest.mark.parametrize(
    "words", [["takeback", "approve", "h3"], ["env", "-i", "tb", "gc"], ["python3", "-m", "takeback", "pause"]]
)
def test_words_without_a_shell_are_marked_too(words: list[str]) -> None:
    assert classify_argv(words).brake


@pytest.mark.parametrize(
    "call",
    [
        {"tool_name": "Bash", "tool_input": {"command": "takeback approve h3"}},
        {"tool_name": "Bash", "tool_input": {"command": ["bash", "-lc", "takeback approve h3"]}},
        {"tool_name": "write_stdin", "tool_input": {"chars": "takeback approve h3\n"}},
        {"tool_name": "mcp__terminal__type", "tool_input": {"text": "tb approve h3"}},
        {"tool_name": "exec", "tool_input": {"input": "await tools.exec_command({cmd: 'takeback approve h3'})"}},
        {"tool_name": "Write", "tool_input": {"file_path": ".takeback.toml", "content": ""}},
        {"tool_name": "Edit", "tool_input": {"file_path": "/home/user/.config/takeback/config.toml"}},
        {
            "tool_name": "Write",
            "tool_input": {"file_path": "/home/user/.local/share/takeback/projects/k/holds/h3.json"},
        },
        {"tool_name": "mcp__filesystem__write_file", "tool_input": {"path": ".claude/settings.json"}},
    ],
    ids=json.dumps,
)
def test_tool_calls_are_marked_too(call: dict[str, object]) -> None:
    assert classify_tool(call).brake


def test_a_data_directory_elsewhere_is_known_with_the_folders_above_it() -> None:
    context = Context(data="/srv/data/takeback")
    for source in ("rm -rf /srv/data", "rm -rf /srv/data/takeback/projects", "echo > /srv/data/takeback/x"):
        assert classify(source, context).brake
    assert not classify("rm -rf /srv/other", context).brake


def test_a_program_that_only_has_the_name_is_not_taken_for_less_than_it_may_do() -> None:
    assert classify("./takeback log").cls >= Class.MACHINE
    assert classify("script -q /dev/null git push").cls == Class.OUTSIDE
    assert classify("chmod -x /usr/bin/env").cls == Class.MACHINE
