import { type Numbers, parseJson, stringifyJson } from '../json/index.js'
import type { Answer, Transport } from './transport.js'

/** How long an answer may take besides what it was asked to wait, in milliseconds. */
const ANSWER_WITHIN = 15_000

/** Options of a read. */
export interface ReadOptions {
  headers?: Record<string, string>
  /** Seconds that the server may wait before it answers. */
  wait?: number
  signal?: AbortSignal | undefined
}

/** Requests of the client: decoded, and sent again when that is safe. */
export class Api {
  constructor(
    readonly transport: Transport,
    readonly numbers: Numbers,
    private readonly retryFor: number,
  ) {}

  /** Answer of a GET. */
  get(path: string, { headers, wait = 0, signal }: ReadOptions = {}): Promise<Answer> {
    const timeout = ANSWER_WITHIN + wait * 1000
    return this.transport.sendUntil('GET', path, { headers, timeout, signal, retryFor: this.retryFor })
  }

  /** Decoded answer of a GET. */
  async read<T>(path: string, options: ReadOptions = {}): Promise<T> {
    return this.decode((await this.get(path, options)).text)
  }

  /** Sends under one request key, so that it happens once however often it is sent. */
  async post<T>(path: string, body: unknown, headers: Record<string, string> = {}, wait = 0): Promise<T> {
    return this.decode((await this.send('POST', path, body, headers, wait)).text)
  }

  async send(method: string, path: string, body: unknown, headers: Record<string, string> = {}, wait = 0): Promise<Answer> {
    const keyed = method === 'POST' ? { 'idempotency-key': crypto.randomUUID(), ...headers } : headers
    const timeout = ANSWER_WITHIN + wait * 1000
    const text = body === undefined ? undefined : stringifyJson(body)
    return this.transport.sendUntil(method, path, { body: text, headers: keyed, timeout, retryFor: this.retryFor })
  }

  /** Items of all pages, one by one. */
  async *pages<T>(path: string, query: Record<string, string | number | boolean | undefined>): AsyncGenerator<T> {
    let cursor: string | undefined
    do {
      const given = Object.entries({ ...query, cursor }).filter(([, value]) => value !== undefined)
      const search = new URLSearchParams(given.map(([key, value]): [string, string] => [key, String(value)]))
      const page = await this.read<{ items: T[]; nextCursor?: string }>(`${path}?${search.toString()}`)
      yield* page.items
      cursor = page.nextCursor
    } while (cursor !== undefined)
  }

  decode<T>(text: string): T {
    return (text === '' ? null : parseJson(text, this.numbers)) as T
  }
}
