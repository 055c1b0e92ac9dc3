import { HapaxError, noAnswer, problemOf } from './problem.js'

export interface ConnectionOptions {
  /** Address of the server. By default `HAPAX_URL`, `HAPAX_SERVER`, or http://127.0.0.1:7171. */
  url?: string | undefined
  /** API key. By default `HAPAX_API_KEY`. */
  apiKey?: string | undefined
  /** Used instead of the global `fetch`. */
  fetch?: typeof fetch | undefined
}

export interface SendOptions {
  body?: string | undefined
  headers?: Record<string, string> | undefined
  /** How long to wait for the answer, in milliseconds. */
  timeout: number
  signal?: AbortSignal | undefined
}

export interface Answer {
  status: number
  headers: Headers
  text: string
}

/** Sends requests to one server, with one key. A redirect is never followed, because the key would go along. */
export class Transport {
  readonly url: string
  private readonly key: string | undefined
  private readonly fetch: typeof fetch

  constructor(options: ConnectionOptions) {
    const environment = (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env ?? {}
    const url = options.url ?? first(environment.HAPAX_URL, environment.HAPAX_SERVER) ?? 'http://127.0.0.1:7171'
    this.url = url.replace(/\/+$/, '')
    this.key = options.apiKey ?? first(environment.HAPAX_API_KEY)
    this.fetch = options.fetch ?? ((input, init) => fetch(input, init))
  }

  /** Sends once. Throws {@link HapaxError} unless the answer is a success. */
  async send(method: string, path: string, options: SendOptions): Promise<Answer> {
    const { body, headers, timeout, signal } = options
    const timer = AbortSignal.timeout(timeout)
    const init: RequestInit = {
      method,
      redirect: 'manual',
      signal: signal === undefined ? timer : AbortSignal.any([timer, signal]),
      headers: {
        ...(this.key === undefined ? {} : { authorization: `Bearer ${this.key}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
    }
    if (body !== undefined) init.body = body
    let answer: Answer
    try {
      const response = await this.fetch(this.url + path, init)
      answer = { status: response.status, headers: response.headers, text: await response.text() }
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
