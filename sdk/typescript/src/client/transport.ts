import { type Answer, type Exchange, viaFetch, viaNode } from './exchange.js'
import { HapaxError, noAnswer, problemOf } from './problem.js'

export type { Answer } from './exchange.js'

/** Where the server is, and as whom to call it. */
export interface ConnectionOptions {
  /** Address of the server. By default `HAPAX_URL`, `HAPAX_SERVER`, or http://127.0.0.1:7171. */
  url?: string | undefined
  /** API key. By default `HAPAX_API_KEY`. */
  apiKey?: string | undefined
  /** Sends requests. By default the HTTP client of Node.js does, and the global `fetch` on other runtimes. */
  fetch?: typeof fetch | undefined
}

/** Options of one request. */
export interface SendOptions {
  body?: string | undefined
  headers?: Record<string, string> | undefined
  /** How long to wait for the answer, in milliseconds. */
  timeout: number
  signal?: AbortSignal | undefined
}

/** Sends requests to one server, with one key. A redirect is never followed, because the key would go along. */
export class Transport {
  readonly url: string
  private readonly key: string | undefined
  private readonly exchange: Exchange

  constructor(options: ConnectionOptions) {
    const environment = (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env ?? {}
    const url = options.url ?? first(environment.HAPAX_URL, environment.HAPAX_SERVER) ?? 'http://127.0.0.1:7171'
    this.url = url.replace(/\/+$/, '')
    this.key = options.apiKey ?? first(environment.HAPAX_API_KEY)
    const { fetch: given } = options
    this.exchange = given ? viaFetch(given) : (viaNode() ?? viaFetch((input, init) => fetch(input, init)))
  }

  /** Sends once. Throws {@link HapaxError} unless the answer is a success. */
  async send(method: string, path: string, options: SendOptions): Promise<Answer> {
    const { body, headers, timeout, signal } = options
    let answer: Answer
    try {
      answer = await this.exchange(this.url + path, {
        method,
        body,
        timeout,
        signal,
        headers: {
          ...(this.key === undefined ? {} : { authorization: `Bearer ${this.key}` }),
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
      })
    } catch (error) {
      signal?.throwIfAborted()
      throw noAnswer(this.url, error)
    }
    if (answer.status >= 200 && answer.status < 300) return answer
    throw problemOf(answer.status, answer.text)
  }

  /** Sends, and sends the same again while the server is busy or out of reach, until `retryFor` milliseconds have passed. */
  async sendUntil(method: string, path: string, options: SendOptions & { retryFor: number }): Promise<Answer> {
    const end = Date.now() + options.retryFor
    for (let wait = FIRST_WAIT; ; wait = Math.min(wait * 2, LONGEST_WAIT)) {
      try {
        return await this.send(method, path, options)
      } catch (error) {
        const mayRetry = error instanceof HapaxError && error.retryable && Date.now() + wait < end
        if (!mayRetry) throw error
        await pause(wait * (0.5 + Math.random() / 2), options.signal)
      }
    }
  }
}

const FIRST_WAIT = 50
const LONGEST_WAIT = 2_000

function first(...texts: (string | undefined)[]): string | undefined {
  return texts.find(text => text !== undefined && text !== '')
}

/** Waits, or until the signal aborts. */
export function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    if (signal?.aborted) return resolve()
    const done = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, milliseconds)
    signal?.addEventListener('abort', done)
  })
}
