import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { TestContext } from 'node:test'
import { Hapax, type HapaxOptions } from '../src/index.js'

/** The hapax program that tests start. */
export const PROGRAM = process.env.HAPAX_BIN

/** Options of a test that needs the program. */
export const needsProgram = { skip: PROGRAM === undefined ? 'HAPAX_BIN names no program' : false }

const deferred = new WeakMap<TestContext, (() => unknown)[]>()

/** Runs when the test is over; what was deferred last runs first. */
export function defer(t: TestContext, end: () => unknown): void {
  const ends = deferred.get(t)
  if (ends) {
    ends.push(end)
    return
  }
  const all = [end]
  deferred.set(t, all)
  t.after(async () => {
    for (const one of all.reverse()) await one()
  })
}

/** A folder that is gone when the test is over. */
export function folder(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'hapax-ts-'))
  defer(t, () => rmSync(path, { recursive: true, force: true }))
  return path
}

export interface Ready {
  url: string
  apiKey: string
}

/** A server in a folder of its own. */
export class Program {
  private child: ChildProcess | undefined
  ready: Ready = { url: '', apiKey: '' }

  private constructor(private readonly folder: string) {}

  static async start(t: TestContext): Promise<Program> {
    const program = new Program(folder(t))
    defer(t, () => program.kill())
    await program.launch('127.0.0.1:0')
    return program
  }

  client(options: HapaxOptions = {}): Hapax {
    return new Hapax({ ...this.ready, ...options })
  }

  /** Kills the server as a crash does. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const { child } = this
    if (child?.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill(signal)
    await ended
  }

  /** Starts the server again, at the same address. */
  async restart(): Promise<void> {
    await this.kill()
    const { apiKey } = this.ready
    await this.launch(new URL(this.ready.url).host)
    this.ready = { ...this.ready, apiKey: this.ready.apiKey === '' ? apiKey : this.ready.apiKey }
  }

  private async launch(listen: string): Promise<void> {
    if (PROGRAM === undefined) throw new Error('HAPAX_BIN names no program')
    const args = ['dev', '--data', join(this.folder, 'data'), '--listen', listen, '--json']
    const child = spawn(PROGRAM, args, { stdio: ['ignore', 'pipe', 'pipe'], cwd: this.folder })
    this.child = child
    let errors = ''
    child.stderr.on('data', chunk => (errors += String(chunk)))
    const line = await Promise.race([
      once(createInterface(child.stdout), 'line').then(([text]) => String(text)),
      once(child, 'exit').then(() => Promise.reject(new Error(`hapax ended: ${errors}`))),
    ])
    this.ready = JSON.parse(line) as Ready
  }
}
