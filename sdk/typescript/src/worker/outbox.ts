import type { Item } from '../core/messages.js'
import { RawJson, stringifyJson } from '../json/index.js'
import type { CallResult, RunItems } from './session.js'

/** What one commit holds. */
export interface Batch {
  runs: RunItems[]
  results: CallResult[]
  /** Both, as they are sent. */
  body: { runs: RawJson[]; results: RawJson[] }
}

/** Items and results that wait for the next commit. */
export class Outbox {
  private runs = new Map<string, RunItems>()
  private results: CallResult[] = []

  get isEmpty(): boolean {
    return this.runs.size === 0 && this.results.length === 0
  }

  push(run: string, activation: string, items: readonly Item[]): void {
    if (items.length === 0) return
    const key = `${run} ${activation}`
    const entry = this.runs.get(key)
    if (entry) entry.items.push(...items)
    else this.runs.set(key, { run, activation, items: [...items] })
  }

  pushResult(result: CallResult): void {
    this.results.push(result)
  }

  /** Takes what one commit may hold: one thing at least, and what fits. */
  take(limits: { maxRunsPerCommit: number; maxBodyBytes: number }): Batch {
    const batch: Batch = { runs: [], results: [], body: { runs: [], results: [] } }
    let room = limits.maxBodyBytes - ENVELOPE_BYTES
    const fits = (text: string) => {
      room -= Buffer.byteLength(text) + 1
      return room >= 0 || (batch.runs.length === 0 && batch.results.length === 0)
    }
    for (const [key, entry] of this.runs) {
      const text = stringifyJson(entry)
      if (batch.runs.length >= limits.maxRunsPerCommit || !fits(text)) return batch
      this.runs.delete(key)
      batch.runs.push(entry)
      batch.body.runs.push(new RawJson(text))
    }
    while (this.results.length > 0 && batch.results.length < limits.maxRunsPerCommit) {
      const text = stringifyJson(this.results[0])
      if (!fits(text)) return batch
      batch.results.push(...this.results.splice(0, 1))
      batch.body.results.push(new RawJson(text))
    }
    return batch
  }

  clear(): void {
    this.runs.clear()
    this.results = []
  }
}

/** Room for the rest of the body. */
const ENVELOPE_BYTES = 512
