"""Inline code: what is plain is told, what is not is opaque, and nothing that does something is taken for nothing."""

from __future__ import annotations

import shlex

import pytest

from tests.guard.conftest import cls

PYTHON = [
    ("print(1 + 1)", "none"),
    ("import sys, json; print(json.load(sys.stdin)['a'])", "none"),
    ("import re; s = open('a').read(); print(re.sub('a', 'b', s))", "none"),
    ("import sys; sys.stdout.write('x')", "none"),
    ("open('a.txt', 'w').write('x')", "files"),
    ("with open('a.txt', 'a') as f:\n    f.write('x')", "files"),
    ("import json; f = open('.env', mode='w'); f.write('x')", "state"),
    ("import json; json.dump({}, open('a.json', 'w'))", "files"),
    ("from pathlib import Path; Path('a.txt').write_text('x')", "files"),
    ("from pathlib import Path\nfor p in Path('.').glob('*'): p.unlink()", "machine"),
    ("import os; os.remove('a.txt')", "files"),
    ("import os as o; o.remove('/etc/x')", "machine"),
    ("from os import remove as r; r('/etc/x')", "machine"),
    ("from os import remove; list(map(remove, ['/etc/x']))", "machine"),
    ("import os; list(map(os.remove, ['/etc/x']))", "machine"),
    ("from shutil import rmtree as print; print('/etc/x')", "machine"),
    ("import shutil as s; s.copy('a', '/etc/x')", "machine"),
    ("import shutil; shutil.move('a.py', 'b.py')", "files"),
    ("import os; [os.system][0]('x')", "machine"),
    ("import os; f = os.system; f('x')", "machine"),
    ("import os; os.system('git push')", "outside"),
    ("import os; os.popen('ls').read()", "none"),
    ("import subprocess; subprocess.run(['git', 'push'])", "outside"),
    ("from subprocess import run; run(['git', 'status'])", "none"),
    ("import subprocess, sys; subprocess.run(sys.argv)", "machine"),
    ("eval('1')", "machine"),
    ("exec(open('x').read())", "machine"),
    ("getattr(__import__('os'), 'sys' + 'tem')('x')", "machine"),
    ("().__class__.__base__.__subclasses__()", "machine"),
    ("import mine; mine.go()", "machine"),
    ("import requests; requests.get('https://example.com')", "none"),
    ("import requests; requests.post('https://example.com', json={})", "outside"),
    ("import requests; requests.post('http://localhost:3000', json={})", "machine"),
    ("import requests as r; r.request('DELETE', 'https://example.com')", "outside"),
    ("from urllib.request import urlopen; urlopen('https://example.com')", "none"),
    ("from urllib.request import urlopen; urlopen('https://example.com', data=b'x')", "outside"),
    ("import socket; socket.create_connection(('192.0.2.1', 80))", "outside"),
    ("import smtplib; smtplib.SMTP('x')", "outside"),
    ("print(", "machine"),
    ("(" * 3000, "machine"),
]

OTHERS = [
    ("node -e", "console.log(process.version)", "none"),
    ("node -p", "require('./package.json').version", "none"),
    ("node -e", "require('fs').writeFileSync('a.txt', 'x')", "files"),
    ("node -e", "require('fs').rmSync('/opt/x', {recursive: true})", "machine"),
    ("node -e", "require('./mine').go()", "machine"),
    ("node -e", "eval(process.argv[1])", "machine"),
    ("node -e", "fetch('https://api.example.com', {method: 'POST'})", "outside"),
    ("node -e", "fetch('https://api.example.com').then(r => console.log(r.status))", "none"),
    ("node -e", "require('child_process').spawn('git', ['push'])", "outside"),
    ("node -e", "const {exec: e} = require('child_process'); e(x)", "machine"),
    ("ruby -e", "puts 1 + 1", "none"),
    ("ruby -e", "File.write('a.txt', 'x')", "files"),
    ("ruby -e", "FileUtils.rm_rf('/opt/x')", "machine"),
    ("ruby -e", "system('git push')", "outside"),
    ("ruby -e", "`git push`", "outside"),
    ("ruby -e", "IO.popen(x)", "machine"),
    ("perl -e", "print 1 + 1", "none"),
    ("perl -ne", "print if /x/", "none"),
    ("perl -e", "unlink '/etc/x'", "machine"),
    ("perl -e", "open(F, '>', 'a.txt'); print F 1", "files"),
    ("perl -e", "system('git push')", "outside"),
    ("perl -e", "qx{git push}", "outside"),
    ("php -r", "echo 1;", "none"),
    ("php -r", "file_put_contents('a.txt', 'x');", "files"),
    ("php -r", "shell_exec('git push');", "outside"),
    ("awk", "{print $1}", "none"),
    ("awk", '{print > "a.txt"}', "files"),
    ("awk", '{print > "/etc/x"}', "machine"),
    ("awk", "{print > $1}", "machine"),
    ("awk", '{print "a > b"}', "none"),
    ("awk", "$1 > 3", "none"),
    ("awk", '{print | "git push"}', "outside"),
    ("awk", 'BEGIN {system("git push")}', "outside"),
    ("awk", "{system($0)}", "machine"),
    ("awk", 'BEGIN {"git push" | getline}', "outside"),
    ("awk", 'BEGIN {print "x" > "/inet/tcp/0/192.0.2.1/80"}', "outside"),
    ("sed", "s/a/b/g; /x/d; 1,3p", "none"),
    ("sed", "s|a|b|w out.txt", "files"),
    ("sed", "s,w /etc/x,b,", "none"),
    ("sed", "/we/w /etc/x", "machine"),
    ("sed", "s/a/b/e", "machine"),
    ("sed", "1e git push", "outside"),
    ("sed", "y/we/ew/", "none"),
]


@pytest.mark.parametrize(("code", "expected"), PYTHON, ids=[code[:60] for code, _ in PYTHON])
def test_python_is_read_as_a_tree(code: str, expected: str) -> None:
    assert cls(f"python3 -c {shlex.quote(code)}") == expected
    assert cls(f"python3 - <<'END'\n{code}\nEND") == expected


@pytest.mark.parametrize(
    ("program", "code", "expected"), OTHERS, ids=[f"{name} {code}"[:60] for name, code, _ in OTHERS]
)
def test_other_languages_are_read_by_what_is_plain(program: str, code: str, expected: str) -> None:
    assert cls(f"{program} {shlex.quote(code)}") == expected
