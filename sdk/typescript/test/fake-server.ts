import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { ServerMessage } from '../src/core/messages.js'
import { RawJson, parseEnvelope, stringifyJson } from '../src/json/index.js'
import type { RunItems } from '../src/worker/session.js'
import { MemoryEngine } from '../src/testing/memory-engine.js'
import type { MemoryRun } from '../src/testing/memory-run.js'

/** What happens to a request. */
export type RequestFault = 'lose-request' | 'lose-answer' | 'session_unknown' | 'session_replaced' | 'busy' | 'garbage'

interface Body {
  sequence: number
  free: number
  runs?: RunItems[]
  results?: Record<string, unknown>[]
  instance?: string
}

const RAW = new Set(['input', 'output', 'value', 'return', 'continueAsNew', 'body', 'details'])

/** The worker protocol on HTTP, over the engine in memory. Faults are asked for by the test. */
export class FakeServer {
  readonly engine = new MemoryEngine()
  readonly requests: { path: string; body: Body }[] = []
  readonly results: Record<string, unknown>[] = []
  readonly opened: Body[] = []
  closed = 0
  holdFor = '20s'
  /** Decides what happens to a request. */
  fault: (path: string, body: Body) => RequestFault | undefined = () => undefined
  /** Answers with a page of a log. */
  log: (after: number) => string = () => '{}'
  /** Messages to send as they are. */
  readonly extra: ServerMessage[] = []
  private readonly sessions = new Set<string>()
  private readonly answers = new Map<string, string>()
  private readonly waiting = new Set<() => void>()
  private server: Server | undefined

  get url(): string {
    return `http://127.0.0.1:${(this.server?.address() as AddressInfo).port}`
  }

  static async start(): Promise<FakeServer> {
    const fake = new FakeServer()
    const server = createServer((request, response) => void fake.handle(request, response))
    fake.server = server
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    return fake
  }

  async stop(): Promise<void> {
    this.wake()
    this.server?.closeAllConnections()
    await new Promise(resolve => this.server?.close(resolve))
  }

  start(workflow: string, input: unknown): MemoryRun {
    const run = this.engine.start(workflow, 1, new RawJson(stringifyJson(input)))
    this.wake()
    return run
  }

  /** Lets polls look again. */
  wake(): void {
    for (const wake of this.waiting) wake()
  }

  /** Resolves when a condition that the worker brings about holds. */
  async until(condition: () => boolean): Promise<void> {
    while (!condition()) await new Promise<void>(resolve => this.onRequest.push(resolve))
  }

  private onRequest: (() => void)[] = []

  async ended(run: MemoryRun): Promise<MemoryRun> {
    await this.until(() => run.status !== 'OPEN')
    return run
  }

  private async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const text = Buffer.concat(chunks).toString()
    const body = (text === '' ? {} : parseEnvelope(text, RAW)) as Body
    const path = request.url ?? ''
    const told = `${request.method ?? ''} ${path}`
    this.requests.push({ path: told, body })
    const fault = this.fault(told, body)
    if (fault === 'lose-request') {
      request.socket.destroy()
      return
    }
    if (fault === 'garbage') {
      response.writeHead(200).end('<html>')
      return
    }
    if (fault === 'busy') { problem(response, 503, 'store_unavailable', true); return; }
    if (fault !== undefined && fault !== 'lose-answer') { problem(response, fault === 'session_unknown' ? 404 : 409, fault); return; }
    const answer = await this.answer(request.method ?? '', path, body)
    const done = this.onRequest
    this.onRequest = []
    if (fault === 'lose-answer') request.socket.destroy()
    else if (answer === undefined) problem(response, 404, 'session_unknown')
    else response.writeHead(request.method === 'POST' && path.endsWith('sessions') ? 201 : 200, { 'content-type': 'application/json' }).end(answer)
    for (const resolve of done) resolve()
  }

  private async answer(method: string, path: string, body: Body): Promise<string | undefined> {
    const [, id = '', verb] = /worker-sessions\/([^/]+)(?:\/(\w+))?/.exec(path) ?? []
    if (method === 'POST' && verb === undefined) return this.open(body)
    if (!this.sessions.has(id)) return undefined
    if (method === 'DELETE') {
      this.endSession(id)
      this.closed++
      return '{}'
    }
    const after = /log\?.*after=(\d+)/.exec(path)?.[1]
    if (after !== undefined) return this.log(Number(after))
    const request = `${id} ${verb} ${body.sequence}`
    const known = this.answers.get(request)
    if (known !== undefined) return known
    this.engine.now = Date.now()
    for (const { run, activation, items } of body.runs ?? []) this.engine.commit(id, run, activation, items)
    this.results.push(...(body.results ?? []))
    let messages = this.take(id, body.free)
    if (verb === 'poll' && messages.length === 0) {
      await this.change()
      messages = this.sessions.has(id) ? this.take(id, body.free) : []
    }
    const answer = stringifyJson({ holdFor: this.holdFor, messages })
    this.answers.set(request, answer)
    return answer
  }

  /** Ends a session, as if its lease were over. */
  endSession(id: string): void {
    this.sessions.delete(id)
    this.engine.sessionOver(id)
    this.wake()
  }

  endSessions(): void {
    for (const id of this.sessions) this.endSession(id)
  }

  private open(body: Body): string {
    this.opened.push(body)
    const id = `wks_${this.opened.length}`
    this.sessions.add(id)
    return stringifyJson({ sessionId: id, leaseFor: '30s', pollFor: '1s', limits: { maxRunsPerCommit: 100 } })
  }

  private take(session: string, free: number): ServerMessage[] {
    this.engine.now = Date.now()
    const extra = free > 0 ? this.extra.splice(0) : []
    return [...extra, ...(free > 0 ? this.engine.take(session) : [])]
  }

  private async change(): Promise<void> {
    await new Promise<void>(resolve => {
      const timer = setTimeout(done, 100)
      const { waiting } = this
      function done(): void {
        clearTimeout(timer)
        waiting.delete(done)
        resolve()
      }
      waiting.add(done)
    })
  }
}

function problem(response: ServerResponse, status: number, code: string, retryable = false): void {
  response.writeHead(status, { 'content-type': 'application/problem+json' })
  response.end(JSON.stringify({ type: `/errors/${code}`, title: code, status, detail: code, code, retryable }))
}
