import type { Agent as HttpAgent } from 'node:http'
import type { Agent as HttpsAgent } from 'node:https'

/** One request. */
export interface ExchangeRequest {
  method: string
  headers: Record<string, string>
  body?: string | undefined
  /** How long to wait for the answer, in milliseconds. */
  timeout: number
  signal?: AbortSignal | undefined
}

/** The answer to a request. */
export interface Answer {
  status: number
  text: string
}

/** Sends one request, and reads its answer. Redirects are not followed. */
export type Exchange = (url: string, request: ExchangeRequest) => Promise<Answer>

/** Sends with `fetch`. */
export function viaFetch(fetching: typeof fetch): Exchange {
  return async (url, { method, headers, body, timeout, signal }) => {
    const timer = AbortSignal.timeout(timeout)
    const init: RequestInit = {
      method,
      headers,
      redirect: 'manual',
      signal: signal === undefined ? timer : AbortSignal.any([timer, signal]),
    }
    if (body !== undefined) init.body = body
    const response = await fetching(url, init)
    return { status: response.status, text: await response.text() }
  }
}

/**
 * Sends with the HTTP client of Node.js, which costs a fraction of its `fetch`: a worker makes a request for each step of a run.
 * Undefined on other runtimes.
 */
export function viaNode(): Exchange | undefined {
  const { process, Deno, Bun } = globalThis as { process?: Partial<NodeJS.Process>; Deno?: unknown; Bun?: unknown }
  if (Deno !== undefined || Bun !== undefined) return undefined
  // A bundler for another runtime finds no import here.
  const http = process?.getBuiltinModule?.('node:http')
  const https = process?.getBuiltinModule?.('node:https')
  if (http === undefined || https === undefined) return undefined
  const agents: { http?: HttpAgent; https?: HttpsAgent } = {}

  const sendOnce = (url: URL, { method, headers, body, timeout, signal }: ExchangeRequest) =>
    new Promise<Answer>((resolve, reject) => {
      const isSecure = url.protocol === 'https:'
      const request = isSecure
        ? https.request(url, { method, headers, agent: (agents.https ??= new https.Agent(KEPT)) })
        : http.request(url, { method, headers, agent: (agents.http ??= new http.Agent(KEPT)) })
      const timer = setTimeout(() => request.destroy(new Error(`no answer within ${timeout} ms`)), timeout)
      const onAbort = () => request.destroy(new Error('it was aborted'))
      const end = () => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', onAbort)
      }
      const fail = (error: Error) => {
        end()
        reject(Object.assign(error, { wasKept: request.reusedSocket }))
      }
      signal?.addEventListener('abort', onAbort)
      request.on('error', fail)
      request.on('response', response => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('error', fail)
        response.on('end', () => {
          end()
          const [first] = chunks
          const bytes = chunks.length === 1 && first !== undefined ? first : Buffer.concat(chunks)
          resolve({ status: response.statusCode ?? 0, text: bytes.toString('utf8') })
        })
      })
      request.end(body)
    })

  return async (url, request) => {
    request.signal?.throwIfAborted()
    const target = new URL(url)
    try {
      return await sendOnce(target, request)
    } catch (error) {
      const { code, wasKept } = error as { code?: string; wasKept?: boolean }
      // The server closed a kept connection before the request came. Whatever is sent twice carries a key or a token.
      const isStale = wasKept === true && (code === 'ECONNRESET' || code === 'EPIPE')
      if (!isStale || request.signal?.aborted === true) throw error
      return sendOnce(target, request)
    }
  }
}

const KEPT = { keepAlive: true, noDelay: true }
