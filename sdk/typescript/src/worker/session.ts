import { HapaxError, noAnswer } from '../client/problem.js'
import { type Answer, type Transport, pause } from '../client/transport.js'
import { parseDuration } from '../duration.js'
import { type RawJson, parseEnvelope, stringifyJson } from '../json/index.js'
import type { Item, LogRecord, ServerMessage } from '../core/messages.js'
import type { WireFailure } from '../failure.js'
import type { Hold } from './clock.js'

/** What a session offers. */
export interface SessionOffer {
  name: string
  instance?: string | undefined
  sdk: string
  sdkVersion: string
  host?: string | undefined
  concurrency: number
  workflows: { name: string; version: number }[]
  tasks: string[]
  actions: string[]
}

/** Limits that the server tells. */
export interface SessionLimits {
  maxItems: number
  maxBodyBytes: number
  maxRunsPerCommit: number
}

/** Items of a run, to commit. */
export interface RunItems {
  run: string
  activation: string
  items: Item[]
}

/** Result of a task or an action, or the outcome of an attempt whose session is over. */
export type CallResult =
  | ({ call: string } & ({ output: RawJson } | { failure: WireFailure } | { rejected: string }))
  | { late: { key: string; attempt: number; fence: number; output: RawJson } }

interface Opened {
  sessionId: string
  leaseFor: string
  pollFor: string
  limits: Partial<SessionLimits>
}

interface PollAnswer {
  holdFor?: string
  messages?: ServerMessage[]
}

interface LogPage {
  records?: LogRecord[]
  log?: LogRecord[]
  next?: number | null
  logMore?: boolean
}

/** How long an answer may take besides what it was asked to wait, in milliseconds. */
const ANSWER_WITHIN = 10_000
const FIRST_WAIT = 50
const LONGEST_WAIT = 5_000
const PATH = '/api/v1/worker-sessions'
const RAW = new Set(['input', 'output', 'data', 'details'])

/** Whether sending the same again may get another answer. */
function isTransient(error: unknown): boolean {
  return error instanceof HapaxError && (error.retryable || error.status === 0 || error.status >= 500)
}

/** A session with the server. A request that gets no answer is sent again, with the same number. */
export class Session {
  private requests = 0

  private constructor(
    private readonly transport: Transport,
    private readonly hold: Hold,
    private readonly signal: AbortSignal,
    readonly id: string,
    readonly leaseFor: number,
    readonly limits: SessionLimits,
    private readonly pollFor: number,
  ) {}

  static async open(transport: Transport, offer: SessionOffer, hold: Hold, signal: AbortSignal): Promise<Session> {
    const opened = await resend(signal, async () => {
      const answer = await transport.send('POST', PATH, { body: stringifyJson(offer), timeout: ANSWER_WITHIN, signal })
      return parsed<Opened>(transport, answer)
    })
    const limits = { maxItems: 10_000, maxBodyBytes: 8_388_608, maxRunsPerCommit: 1024, ...opened.limits }
    return new Session(transport, hold, signal, opened.sessionId, parseDuration(opened.leaseFor), limits, parseDuration(opened.pollFor))
  }

  /** Waits for messages. `free` is read anew for each request, but a request that is sent again says the same. */
  poll(free: number): Promise<ServerMessage[]> {
    return this.call('poll', { free }, this.pollFor)
  }

  commit(free: number, { runs, results }: { runs: RawJson[]; results: RawJson[] }): Promise<ServerMessage[]> {
    return this.call('commit', { free, runs, ...(results.length > 0 ? { results } : {}) }, 0)
  }

  /** Records of a run behind `after`, page by page. */
  async log(run: string, activation: string, after: number): Promise<LogRecord[]> {
    const records: LogRecord[] = []
    for (;;) {
      const query = `activation=${encodeURIComponent(activation)}&after=${after + records.length}`
      const path = `${PATH}/${this.id}/runs/${encodeURIComponent(run)}/log?${query}`
      const page = await resend(this.signal, async () => {
        const answer = await this.transport.send('GET', path, { timeout: ANSWER_WITHIN, signal: this.signal })
        return parsed<LogPage>(this.transport, answer)
      })
      const got = page.records ?? page.log ?? []
      records.push(...got)
      const hasMore = page.logMore ?? (page.next !== undefined && page.next !== null)
      if (!hasMore || got.length === 0) return records
    }
  }

  /** Ends the session. Its work is free at once. */
  async close(): Promise<void> {
    await this.transport.sendUntil('DELETE', `${PATH}/${this.id}`, { timeout: ANSWER_WITHIN, retryFor: LONGEST_WAIT })
  }

  private async call(verb: string, body: object, wait: number): Promise<ServerMessage[]> {
    const text = stringifyJson({ sequence: ++this.requests, ...body })
    // The hold counts from the first request with this number: the answer to a later one may be that to the first.
    const sentAt = this.hold.now()
    const timeout = wait + ANSWER_WITHIN
    const { holdFor, messages = [] } = await resend(this.signal, async () => {
      const answer = await this.transport.send('POST', `${PATH}/${this.id}/${verb}`, { body: text, timeout, signal: this.signal })
      return parsed<PollAnswer>(this.transport, answer)
    })
    if (holdFor !== undefined) this.hold.extend(sentAt, parseDuration(holdFor))
    return messages
  }
}

/** The body of an answer. One that cannot be read, perhaps from a proxy, is as good as none. */
function parsed<T>(transport: Transport, answer: Answer): T {
  try {
    return parseEnvelope(answer.text, RAW) as T
  } catch (error) {
    throw noAnswer(transport.url, error)
  }
}

/** Sends until there is an answer. A lost answer is unknown, never lost. */
async function resend<T>(signal: AbortSignal, send: () => Promise<T>): Promise<T> {
  for (let wait = FIRST_WAIT; ; wait = Math.min(wait * 2, LONGEST_WAIT)) {
    try {
      return await send()
    } catch (error) {
      if (signal.aborted || !isTransient(error)) throw error
      await pause(wait * (0.5 + Math.random() / 2), signal)
    }
  }
}
