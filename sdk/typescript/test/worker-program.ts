import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { type Ready, defer } from './program.js'

/** `worker-process.ts` as a process of its own. */
export class WorkerProcess {
  readonly said: string[] = []
  private readonly child: ChildProcess
  private readonly listeners = new Set<() => void>()

  constructor(t: TestContext, ready: Ready, environment: Record<string, string> = {}) {
    const env = { ...process.env, HAPAX_URL: ready.url, HAPAX_API_KEY: ready.apiKey, ...environment }
    const script = fileURLToPath(new URL('worker-process.js', import.meta.url))
    this.child = spawn(process.execPath, [script], { env, stdio: ['ignore', 'pipe', 'inherit'] })
    defer(t, () => this.child.kill('SIGKILL'))
    if (this.child.stdout) {
      createInterface(this.child.stdout).on('line', line => {
        this.said.push(line)
        for (const listener of this.listeners) listener()
      })
    }
  }

  async says(line: string): Promise<void> {
    await new Promise<void>(resolve => {
      const look = () => {
        if (!this.said.includes(line)) return
        this.listeners.delete(look)
        resolve()
      }
      this.listeners.add(look)
      look()
    })
  }

  /** Stops the process, or lets it go on. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.child.kill(signal)
  }

  async end(signal: NodeJS.Signals): Promise<number | null> {
    const ended = once(this.child, 'exit')
    this.child.kill(signal)
    const [code] = (await ended) as [number | null]
    return code
  }
}
