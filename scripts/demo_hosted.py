"""A program as users of the hosted client write it: only the import line below is another.

Started by `scripts/demo`; says what it saw, and ends with an error when anything is not as that client has it.
"""

import sys

from takeback import Sandbox

name = sys.argv[1] if len(sys.argv) > 1 else "hosted-demo"

with Sandbox.create(name=name, labels={"task": name, "agent": "demo"}, network={"internet": False}) as sbx:
    print("created", sbx.info["name"], sbx.info["state"], sbx.info["labels"])

    result = sbx.exec("python3 -c 'print(6 * 7)'", timeout_ms=30_000)
    assert (result.exit_code, result.stdout) == (0, "42\n"), result
    late = sbx.exec("sleep 60", timeout_ms=200)
    assert late.timed_out and late.exit_code is None, late
    print("exec", result.stdout.strip(), "and timed_out", late.timed_out)

    sbx.files.write("/workspace/app/page.txt", "version 1\n")
    assert sbx.files.read_text("/workspace/app/page.txt") == "version 1\n"
    print("files", [entry["name"] for entry in sbx.files.list("/workspace/app")])

    server = sbx.spawn("python3 -m http.server 8000", cwd="/workspace/app")
    fetch = "curl -sf --retry 20 --retry-connrefused --retry-delay 1 localhost:8000/page.txt"
    assert sbx.exec(fetch).stdout == "version 1\n"
    print("spawn", server.state)

    saved = sbx.snapshot(name=f"{name}-saved", retention_days=1, mode="memory")
    copy = sbx.fork(labels={"task": name, "role": "copy"})
    copy.files.write("/workspace/app/page.txt", "version 2\n")
    assert copy.exec(fetch).stdout == "version 2\n"
    assert sbx.exec(fetch).stdout == "version 1\n"
    found = Sandbox.list(labels={"task": name, "role": "copy"})
    assert [one.id for one in found] == [copy.id], found
    print("fork", copy.info["labels"], "its server and the source's each serve their own page")
    copy.delete()

    again = Sandbox.create(snapshot=saved["id"])
    assert again.exec(fetch).stdout == "version 1\n"
    again.delete()
    print("snapshot", saved["name"], saved["state"], saved["mode"], "and a sandbox started from it")

    rules = sbx.network.set(internet=True, allow=["packages.example.com"], deny=["*.example.org"])
    assert (rules["internet"], rules["allow"], rules["deny"]) == (True, ["packages.example.com"], ["*.example.org"])
    assert sbx.exec("curl -sf https://www.example.org").exit_code != 0
    assert sbx.network.off()["internet"] is False
    print("network", sbx.network.log()[-1]["why"])

    try:
        Sandbox.create(name=name)
        raise AssertionError("two of one name")
    except Exception as error:
        assert error.code == "name_taken" and error.status == 409, error
        print("error", error.code, error.status)
    sbx.delete_snapshot(saved["id"])

try:
    Sandbox.connect(sbx.id)
    raise AssertionError("deleted, and still there")
except Exception as error:
    assert error.code == "not_found" and error.status == 404, error
    print("deleted", error.code, error.status)
