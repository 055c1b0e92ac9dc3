import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
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

  /** Key of a credential that may only work. */
  workerKey = ''

  private constructor(
    private readonly folder: string,
    private readonly lease: string | undefined,
  ) {}

  static async start(t: TestContext): Promise<Program> {
    const program = new Program(folder(t), undefined)
    defer(t, () => program.kill())
    await program.launch('127.0.0.1:0')
    return program
  }

  /** A server as in production, whose leases are this long. */
  static async serve(t: TestContext, lease: string): Promise<Program> {
    const program = new Program(folder(t), lease)
    defer(t, () => program.kill())
    await program.launch('127.0.0.1:0')
    const root = readFileSync(join(program.folder, 'root.key'), 'utf8').trim()
    program.call(root, 'workspaces', 'create', 'acme')
    const key = (role: string) => {
      const made = program.call(root, 'credentials', 'create', role, '--role', role, '--workspace', 'acme')
      return (JSON.parse(made) as { apiKey: string }).apiKey
    }
    program.ready = { ...program.ready, apiKey: key('admin') }
    program.workerKey = key('worker')
    return program
  }

  private call(key: string, ...words: string[]): string {
    const env = { ...process.env, HAPAX_SERVER: this.ready.url, HAPAX_API_KEY: key }
    return execFileSync(PROGRAM ?? '', ['admin', ...words, '--json'], { env, encoding: 'utf8' })
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
    const development = ['dev', '--data', join(this.folder, 'data'), '--listen', listen, '--json']
    const production = (lease: string) => [
      ...['serve', '--store', `sqlite:${join(this.folder, 'hapax.db')}`, '--key-file', join(this.folder, 'root.key')],
      ...['--listen', listen, '--lease', lease, '--log', 'error'],
    ]
    const args = this.lease === undefined ? development : production(this.lease)
    const child = spawn(PROGRAM, args, { stdio: ['ignore', 'pipe', 'pipe'], cwd: this.folder })
    this.child = child
    let errors = ''
    const url = new Promise<string>(resolve => {
      createInterface(child.stderr).on('line', line => {
        errors += `${line}\n`
        const address = /^hapax: serving .*(http:\/\/\S+)/.exec(line)?.[1]
        if (address !== undefined) resolve(address)
      })
    })
    const line = once(createInterface(child.stdout), 'line').then(([text]) => String(text))
    const ended = once(child, 'exit').then(() => Promise.reject(new Error(`hapax ended: ${errors}`)))
    this.ready = await Promise.race([
      this.lease === undefined ? line.then(text => JSON.parse(text) as Ready) : url.then(url => ({ url, apiKey: '' })),
      ended,
    ])
  }
}
