"""OpenCode's plugin. Does not cover: OpenCode's own `/undo`, which keeps that name."""

from __future__ import annotations

import json
from pathlib import Path

from takeback.app.agents.places import Agent, Piece, Where

_READS = "read glob grep list todoread todowrite websearch codesearch question task lsp skill plan_exit plan_enter"
_PLUGIN = """\
// takeback-hook for OpenCode: asks takeback before and after each step. What it throws keeps the step from running.
import { spawn } from "node:child_process"

const hook = %(hook)s
const reads = new Set(%(reads)s)

function ask(event, step) {
  return new Promise((resolve) => {
    let out = "", err = ""
    const child = spawn(hook, ["opencode", event], { stdio: ["pipe", "pipe", "pipe"] })
    child.on("error", (error) => resolve({ code: error.code === "ENOENT" ? 127 : 1, out, err: String(error) }))
    child.on("close", (code, signal) => resolve({ code: code ?? signal, out, err }))
    child.stdout.on("data", (part) => (out += part))
    child.stderr.on("data", (part) => (err += part))
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify(step))
  })
}

export const Takeback = async ({ directory }) => {
  const told = new Map()
  const step = (input, args) => ({
    session_id: input.sessionID, cwd: directory, tool_use_id: input.callID, tool_name: input.tool, tool_input: args,
  })
  const started = ask("session", { session_id: "", cwd: directory })
  return {
    "chat.message": async (input, output) => {
      await started
      const text = output.parts.filter((part) => part.type === "text").map((part) => part.text).join(" ")
      const said = await ask("prompt", { session_id: input.sessionID, cwd: directory, prompt: text })
      if (said.code === 0 && said.out.trim()) told.set(input.sessionID, said.out.trim())
    },
    "experimental.chat.system.transform": async (input, output) => {
      const text = told.get(input.sessionID)
      if (text) output.system.push(text)
    },
    "tool.execute.before": async (input, output) => {
      if (reads.has(input.tool)) return
      const said = await ask("before", step(input, output.args))
      // Not there any more: who removed takeback goes on without it.
      if (said.code === 127) return console.error(`takeback: ${hook} is gone; nothing is saved`)
      if (said.code !== 0) throw new Error(said.err.trim() || `takeback-hook ended with ${said.code}`)
    },
    "tool.execute.after": async (input, output) => {
      if (reads.has(input.tool)) return
      const said = await ask("after", { ...step(input, input.args), exit: output.metadata?.exit })
      if (said.code === 0 && said.out.trim()) output.output += `\\n${said.out.trim()}`
    },
    event: async ({ event }) => {
      if (event.type !== "session.idle") return
      told.delete(event.properties.sessionID)
      await ask("stop", { session_id: event.properties.sessionID, cwd: directory })
    },
  }
}
"""
_UNDO = """---
description: Take back what the last step changed (takeback)
---
This was run for the person, by takeback:

!`takeback undo $ARGUMENTS`

Say in one sentence what was taken back. Read files that changed before you edit them again. Change nothing now.
"""


class OpenCode(Agent):
    name = "opencode"
    title = "OpenCode"

    def _folder(self, where: Where) -> Path:
        if where.root is not None:
            return where.root / ".opencode"
        return where.folder("XDG_CONFIG_HOME", ".config") / "opencode"

    def pieces(self, where: Where) -> list[Piece]:
        plugin = _PLUGIN % {"hook": json.dumps(where.hook), "reads": json.dumps(_READS.split())}
        folder = self._folder(where)
        return [
            Piece(folder / "plugins" / "takeback.js", text=plugin),
            Piece(folder / "commands" / "takeback-undo.md", text=_UNDO),
        ]

    def used(self, where: Where) -> bool:
        there = where.folder("XDG_CONFIG_HOME", ".config") / "opencode"
        return self.program(where) is not None or there.is_dir()


AGENT = OpenCode()
