// takeback-hook for OpenCode: asks takeback before and after each step. What it throws keeps the step from running.
import { spawn } from "node:child_process"

const hook = "takeback-hook"
const reads = new Set(["read", "glob", "grep", "list", "todoread", "todowrite", "websearch", "codesearch", "question", "task", "lsp", "skill", "plan_exit", "plan_enter"])

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
      if (said.code === 0 && said.out.trim()) output.output += `\n${said.out.trim()}`
    },
    event: async ({ event }) => {
      if (event.type !== "session.idle") return
      told.delete(event.properties.sessionID)
      await ask("stop", { session_id: event.properties.sessionID, cwd: directory })
    },
  }
}
