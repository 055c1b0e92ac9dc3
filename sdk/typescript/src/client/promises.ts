import type { Api } from './api.js'
import type { PromiseView, Settled } from './views.js'

/** A promise by its id or by its business key. */
export type PromiseRef = { id: string } | { key: string }

/** Durable promises: values that are supplied from outside, once. */
export class Promises {
  constructor(private readonly api: Api) {}

  /** Settles a promise with a value. The first settlement counts; a key that names no promise yet is kept for the one to come. */
  resolve(ref: PromiseRef, value?: unknown): Promise<Settled> {
    return this.api.post(`${path(ref)}/resolve`, { value: value ?? null })
  }

  /** Settles a promise with a failure. */
  reject(ref: PromiseRef, failure: { message: string; code?: string }): Promise<Settled> {
    return this.api.post(`${path(ref)}/reject`, failure)
  }

  /** The promise as it stands. */
  get(ref: PromiseRef): Promise<PromiseView> {
    return this.api.read(path(ref))
  }
}

function path(ref: PromiseRef): string {
  const name = 'id' in ref ? `id:${ref.id}` : `key:${ref.key}`
  return `/api/v1/promises/${encodeURIComponent(name)}`
}
