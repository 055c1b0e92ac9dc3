import { Agent, type IncomingHttpHeaders, type IncomingMessage, createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'
import { defer } from './program.js'

/** A place in the talk of a worker with its server: a call, and whether it was carried out. */
export interface Boundary {
  call: 'open' | 'poll' | 'commit'
  /** Which of them, from 1. Polls count if they bring messages. */
  number: number
  /** Before the server has heard of it, or after, with an answer that never arrives. */
  when: 'before' | 'after'
}

interface Answer {
  status: number
  headers: IncomingHttpHeaders
  body: Buffer
}

/** Passes calls of workers on, and strikes at one boundary. */
export class BoundaryProxy {
  url = ''
  private boundary: Boundary | undefined
  private strike: () => Promise<void> = () => Promise.resolve()
  private counts = { open: 0, poll: 0, commit: 0 }
  private readonly agent = new Agent({ keepAlive: false })

  private constructor(private readonly server: () => string) {}

  /** In front of the server whose address `server` tells. */
  static async start(t: TestContext, server: () => string): Promise<BoundaryProxy> {
    const proxy = new BoundaryProxy(server)
    const listener = createServer((incoming, outgoing) => {
      proxy.handle(incoming).then(
        answer => {
          if (answer === undefined) return outgoing.destroy()
          const type = answer.headers['content-type'] ?? 'application/json'
          return outgoing.writeHead(answer.status, { 'content-type': type }).end(answer.body)
        },
        () => outgoing.destroy(),
      )
    })
    await new Promise<void>(resolve => listener.listen(0, '127.0.0.1', resolve))
    proxy.url = `http://127.0.0.1:${(listener.address() as AddressInfo).port}`
    defer(t, () => {
      listener.closeAllConnections()
      listener.close()
    })
    return proxy
  }

  /** Resolves when the boundary was reached and `strike` was carried out there. The call gets no answer. */
  strikeAt(boundary: Boundary, strike: () => Promise<void>): Promise<void> {
    this.boundary = boundary
    this.counts = { open: 0, poll: 0, commit: 0 }
    return new Promise((resolve, reject) => {
      this.strike = () => strike().then(resolve, reject)
    })
  }

  private async handle(incoming: IncomingMessage): Promise<Answer | undefined> {
    const chunks: Buffer[] = []
    for await (const chunk of incoming) chunks.push(chunk as Buffer)
    const body = Buffer.concat(chunks)
    const call = callOf(incoming)
    if (call !== undefined && call !== 'poll' && this.isReached(call, 'before', ++this.counts[call])) return this.fall()
    const answer = await this.pass(incoming, body)
    if (call === 'poll' && answer.body.includes('"type":')) this.counts.poll++
    if (call !== undefined && this.isReached(call, 'after', this.counts[call])) return this.fall()
    return answer
  }

  private isReached(call: Boundary['call'], when: Boundary['when'], number: number): boolean {
    const { boundary } = this
    return boundary?.call === call && boundary.when === when && boundary.number === number
  }

  private async fall(): Promise<undefined> {
    this.boundary = undefined
    await this.strike()
  }

  private pass(incoming: IncomingMessage, body: Buffer): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const { method, headers } = incoming
      const target = new URL(incoming.url ?? '/', this.server())
      const outgoing = request(target, { agent: this.agent, method, headers: { ...headers, host: target.host } }, got => {
        const chunks: Buffer[] = []
        got.on('data', (chunk: Buffer) => chunks.push(chunk))
        got.on('end', () => {
          resolve({ status: got.statusCode ?? 502, headers: got.headers, body: Buffer.concat(chunks) })
        })
        got.on('error', reject)
      })
      outgoing.on('error', reject)
      outgoing.end(body)
    })
  }
}

function callOf({ method, url = '' }: IncomingMessage): Boundary['call'] | undefined {
  if (method !== 'POST') return undefined
  if (url.endsWith('/worker-sessions')) return 'open'
  return url.endsWith('/poll') ? 'poll' : url.endsWith('/commit') ? 'commit' : undefined
}
