"""Tool calls of agents, in the names and shapes of the programs people use.

    {"tool_name": "Bash", "tool_input": {"command": ".."}, "cwd": ".."}      Claude Code, Codex, Gemini CLI
    {"tool": "bash", "args": {"command": ".."}}                               OpenCode

Does not cover: what comes back from a tool.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from takeback.guard import brake, places
from takeback.guard.classify import classify, classify_argv
from takeback.guard.context import Context
from takeback.guard.http import host_of
from takeback.guard.later import pattern
from takeback.guard.model import Class, Effect, Part, Reason, Verdict, What, verdict
from takeback.guard.rules import Library

Input = Mapping[str, Any]

_READS = frozenset(
    "read view cat grep glob ls list readfile read_file read_many_files list_directory list_dir "
    "search_file_content grep_files google_web_search "
    "websearch web_search tool_search todowrite todoread update_plan view_image notebookread exitplanmode "
    "enterplanmode askuserquestion bashoutput "
    "taskoutput skill codesearch lsp write_todos get_internal_docs question request_user_input cli_help "
    "codebase_investigator "
    "listmcpresourcestool readmcpresourcetool list_mcp_resources read_mcp_resource toolsearch tasklist taskget "
    "wait".split()
)
_SHELLS = frozenset(
    "bash shell run_shell_command exec_command local_shell container_exec run_terminal_cmd terminal "
    "execute_command".split()
)
_WRITES = frozenset(
    "write edit multiedit notebookedit replace write_file create_file str_replace str_replace_editor "
    "str_replace_based_edit_tool "
    "edit_file search_replace delete_file insert_edit_into_file".split()
)
# mcp__takeback__undo, mcp__plugin_takeback_takeback__undo (Claude Code, Codex), mcp_takeback_undo, takeback_undo
_OWN_TOOL = pattern(
    r"(?:mcp__plugin_takeback_|mcp__?)?takeback__?(explain|checkpoint|log|diff|undo|redo|restore|run|holds)"
)
_PATHS = ("file_path", "filePath", "notebook_path", "path", "absolute_path", "target_file", "filename")
_PATCHED = pattern(r"^\*\*\* (Add|Update|Delete) File: (.+)$|^\*\*\* (Move) to: (.+)$", re.MULTILINE)
_CODE_MODE = pattern(r"tools\.(\w+)\s*\(")
_READING = pattern(
    r"(^|_|-)(get|list|read|search|find|fetch|query|describe|show|view|lookup|count|check|status|info|browse"
    r"|resolve|explain|help|whoami|diff|log)"
    r"($|_|-|[A-Z])"
)
_CHANGING = pattern(
    r"(^|_|-|[a-z](?=[A-Z]))(create|update|delete|remove|write|send|post|put|push|merge|add|set|edit|move|upload"
    r"|publish|deploy|run|exec\w*|insert|drop|apply"
    r"|close|comment|reply|assign|invite|pay|charge|refund|transfer|rename|archive|approve"
    r"|submit|click|type|fill|navigate|evaluate|call|invoke)",
    re.IGNORECASE,
)


def classify_tool(call: Mapping[str, Any], context: Context | None = None, library: Library | None = None) -> Verdict:
    """Return what a tool call would do; what is not known is opaque, and so `machine` at least."""
    context = context or Context()
    name, given = _read(call)
    cwd = _text(call, "cwd") or _text(given, "workdir", "cwd", "directory", "dir_path")
    if cwd:
        cwd = places.absolute(cwd, context.start) or context.start
        context = dataclasses.replace(context, cwd=cwd)
    low = name.lower()
    own = own_tool(name)
    if low in _SHELLS or own == "run":
        return _shell(name, given, context, library)
    if own is not None:
        return _own(own, given, context, library)
    part = Part(name or "a tool call without a name", words=(name,) if name else ())
    if low == "apply_patch" or "*** Begin Patch" in _text(given, "input", "patch", "patchText", "command"):
        _patch(part, _text(given, "input", "patch", "patchText", "command") or _text(call, "input"), context)
    elif low in _WRITES:
        _write(part, given, context)
    elif low in ("webfetch", "web_fetch", "fetch", "read_web_page"):
        _fetch(part, given)
    elif low == "exec" and isinstance(given.get("input", given.get("code")), str):
        return _code_mode(part, str(given.get("input", given.get("code"))), context, library)
    elif low.startswith("mcp_") or "__" in low:
        _mcp(part, name, given, context)
    elif low in _READS and not any(key in given for key in ("content", "new_string")):
        pass
    elif low in ("write_stdin", "killshell", "kill_shell", "killbash", "taskstop"):
        typed = low == "write_stdin" and bool(_text(given, "chars", "input"))
        _opaque(
            part,
            f"{name} types into a running program" if typed else f"{name} ends a process",
            Reason.OPAQUE if typed else Reason.SYSTEM,
        )
    elif low in ("save_memory", "remember"):
        part.effects += places.touch(f"{context.home}/.gemini/GEMINI.md", None, context)
    elif low in ("task", "agent", "spawn_agent"):
        pass  # its own tool calls are asked about one by one
    else:
        _opaque(part, f"{name or 'this tool'} is not known")
    held = brake.said(" ".join(_texts(given)), verdict(part))
    if held is not None:
        part.effects.append(held)
    return verdict(part)


def _texts(value: Any, depth: int = 8) -> Iterator[str]:
    """Yield every text in a tool's input."""
    if isinstance(value, str):
        yield value
    elif depth and isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one, depth - 1)
    elif depth and isinstance(value, list):
        for one in value:
            yield from _texts(one, depth - 1)


def parts_of(call: Mapping[str, Any]) -> tuple[str, Input, str | list[str] | None]:
    """Return a tool call's name, its input, and the command when a shell runs it: source, or words."""
    name, given = _read(call)
    command = given.get("command", given.get("cmd", given.get("script"))) if name.lower() in _SHELLS else None
    if isinstance(command, str) and not command.lstrip().startswith("*** Begin Patch"):
        return name, given, command
    if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        return name, given, command
    return name, given, None


def own_tool(name: str) -> str | None:
    """Return which tool of takeback's own MCP server a host's name for one means, or None."""
    found = _OWN_TOOL.fullmatch(name.lower())
    return found[1] if found else None


def _read(call: Mapping[str, Any]) -> tuple[str, Input]:
    """Return the tool's name and its input, in whichever shape they come."""
    name, given = "", {}
    for key in ("tool_name", "tool", "name", "toolName", "recipient_name"):
        if isinstance(call.get(key), str):
            name = call[key]
            break
    for key in ("tool_input", "args", "input", "arguments", "parameters", "params"):
        value = call.get(key)
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                value = {"input": value}
        if isinstance(value, Mapping):
            given = dict(value)
            break
    return name.removeprefix("functions.").rpartition(".")[2], given


def _text(given: Mapping[str, Any], *keys: str) -> str:
    return next((given[key] for key in keys if isinstance(given.get(key), str)), "")


def _shell(name: str, given: Input, context: Context, library: Library | None) -> Verdict:
    command = given.get("command", given.get("cmd", given.get("script")))
    if isinstance(command, str):
        if command.lstrip().startswith("*** Begin Patch"):
            part = Part(name)
            _patch(part, command, context)
            return verdict(part)
        return classify(command, context, library)
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        return classify_argv(command, context, library)
    part = Part(name)
    _opaque(part, f"{name} without a command that can be read")
    return verdict(part)


def _own(tool: str, given: Input, context: Context, library: Library | None) -> Verdict:
    """Of takeback's own tools each is the command of its name."""
    words = ["takeback", tool, *(["--dry-run"] if given.get("dry_run") is True else [])]
    if tool == "restore" and _text(given, "to"):
        words += ["--to", _text(given, "to")]
    return classify_argv(words, context, library)


def _write(part: Part, given: Input, context: Context) -> None:
    found = [given[key] for key in _PATHS if isinstance(given.get(key), str)]
    for edit in given.get("edits", ()) if isinstance(given.get("edits"), list) else ():
        if isinstance(edit, Mapping):
            found += [edit[key] for key in _PATHS if isinstance(edit.get(key), str)]
    if part.text.startswith("str_replace") and given.get("command") == "view":
        return
    for path in found:
        if path.startswith("~/"):
            path = context.home + path[1:]
        part.effects += places.touch(path, context.start, context, delete="delete" in part.text.lower())
    if not found:
        _opaque(part, f"{part.text} without a path")


def _patch(part: Part, text: str, context: Context) -> None:
    found = _PATCHED.findall(text)
    for verb, path, _, moved in found:
        part.effects += places.touch((path or moved).strip(), context.start, context, delete=verb == "Delete")
    if not found:
        _opaque(part, "a patch without files that can be read")


def _fetch(part: Part, given: Input) -> None:
    urls = [_text(given, "url")] if _text(given, "url") else re.findall(r"https?://\S+", _text(given, "prompt"))
    for url in urls:
        part.effects.append(Effect(Class.NONE, What.NETWORK, f"asks {host_of(url)}", host_of(url), "GET"))
    if not urls:
        _opaque(part, f"{part.text} without an address")


def _code_mode(part: Part, text: str, context: Context, library: Library | None) -> Verdict:
    """Codex's code mode: JavaScript that calls tools."""
    part.effects.append(Effect(Class.MACHINE, What.CODE, "code that calls tools", reason=Reason.OPAQUE))
    for found in _CODE_MODE.finditer(text):
        argument = re.match(r"\s*(\{[^{}]*\}|(['\"`])(?:\\.|(?!\2).)*\2)", text[found.end() :], re.DOTALL)
        said = argument[1] if argument else ""
        command = re.search(r"\b(?:cmd|command)['\"]?\s*:\s*(['\"`])((?:\\.|(?!\1).)*)\1", said, re.DOTALL)
        if found[1] in _SHELLS and command:
            source = command[2].replace("\\n", "\n").replace("\\'", "'").replace('\\"', '"').replace("\\\\", "\\")
            part.parts.append(classify(source, context, library).part)
        elif found[1] == "apply_patch":
            inner = Part("apply_patch")
            _patch(inner, said.replace("\\n", "\n"), context)
            part.parts.append(inner)
        elif found[1] not in _READS:
            part.effects.append(Effect(Class.OUTSIDE, What.CODE, f"calls {found[1]} with what cannot be read"))
    return verdict(part)


def _mcp(part: Part, name: str, given: Input, context: Context) -> None:
    """A tool of an MCP server: mostly it works elsewhere, so only names that read are taken for reading."""
    words = name.removeprefix("mcp__").removeprefix("mcp_")
    server, _, tool = words.partition("__") if "__" in words else words.partition("_")
    if tool and _READING.search(tool) and not _CHANGING.search(tool):
        part.effects.append(Effect(Class.NONE, What.NETWORK, f"asks {server}", server))
        return
    if server.lower() in _LOCAL_SERVERS:
        _LOCAL_SERVERS[server.lower()](part, tool, given, context)
        return
    part.effects.append(
        Effect(Class.OUTSIDE, What.NETWORK, f"{tool or name} of {server} may change what is elsewhere", server)
    )


def _file_server(part: Part, tool: str, given: Input, context: Context) -> None:
    paths = [given[key] for key in (*_PATHS, "source", "destination") if isinstance(given.get(key), str)]
    for path in paths:
        part.effects += places.touch(path, context.start, context, delete="delete" in tool or "move" in tool)
    if not paths:
        _opaque(part, f"{tool} without a path")


def _git_server(part: Part, tool: str, given: Input, context: Context) -> None:
    if "push" in tool:
        part.effects.append(Effect(Class.OUTSIDE, What.NETWORK, "pushes"))
        return
    where = _text(given, "repo_path", "path") or context.start
    if places.at(places.absolute(where, context.start), context):
        part.effects.append(Effect(Class.FILES, What.REFS, f"{tool} changes this repository"))
    else:
        part.effects.append(Effect(Class.MACHINE, What.REFS, f"{tool} changes {where}", where, reason=Reason.DESTROYS))


def _thinking(part: Part, tool: str, given: Input, context: Context) -> None:
    """Servers that only keep notes of the model's own."""


def _browser(part: Part, tool: str, given: Input, context: Context) -> None:
    url = _text(given, "url")
    if (url and places.LOCAL.match(host_of(url))) or ("navigate" in tool and url):
        part.effects.append(Effect(Class.NONE, What.NETWORK, f"asks {host_of(url)}", host_of(url), "GET"))
    else:
        part.effects.append(Effect(Class.OUTSIDE, What.NETWORK, f"{tool} acts on a page"))


_LOCAL_SERVERS: dict[str, Callable[[Part, str, Input, Context], None]] = {
    "filesystem": _file_server,
    "fs": _file_server,
    "git": _git_server,
    "sequential-thinking": _thinking,
    "sequentialthinking": _thinking,
    "playwright": _browser,
    "puppeteer": _browser,
    "browser": _browser,
    "chrome-devtools": _browser,
}


def _opaque(part: Part, why: str, reason: Reason = Reason.OPAQUE) -> None:
    part.effects.append(Effect(Class.MACHINE, What.CODE, why, reason=reason))
