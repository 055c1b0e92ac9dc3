import type { ActivateMessage } from '../core/messages.js'
import type { Machine } from '../core/machine.js'
import type { RunningAttempt } from './attempts.js'

/** A run that this worker keeps. */
export class Slot {
  machine: Machine | undefined
  /** True once the function is forgotten. */
  isDropped = false
  /** Attempts that run, by operation. */
  readonly attempts = new Map<number, RunningAttempt>()
  private tail: Promise<void> = Promise.resolve()
  private queued = 0

  constructor(readonly message: ActivateMessage) {}

  /** Runs after everything that came before. Calls of a machine take turns. */
  enqueue(task: () => Promise<void>): Promise<void> {
    this.queued++
    this.tail = this.tail.then(task).finally(() => this.queued--)
    return this.tail
  }

  get isIdle(): boolean {
    return this.queued === 0 && this.attempts.size === 0 && (this.machine?.isIdle ?? false)
  }

  abortAll(why: string, code: string): void {
    for (const attempt of this.attempts.values()) attempt.abort(why, code)
  }
}

/** The runs that a worker keeps, least recently used first. */
export class RunCache {
  private readonly slots = new Map<string, Slot>()

  constructor(private readonly capacity: number) {}

  get size(): number {
    return this.slots.size
  }

  values(): IterableIterator<Slot> {
    return this.slots.values()
  }

  /** The run of an activation, which is thereby the most recently used. */
  use(run: string, activation: string): Slot | undefined {
    const slot = this.slots.get(run)
    if (slot?.message.activation !== activation) return undefined
    this.slots.delete(run)
    this.slots.set(run, slot)
    return slot
  }

  /** Adds a run, and returns the one that it replaces. */
  add(slot: Slot): Slot | undefined {
    const old = this.slots.get(slot.message.run)
    this.slots.delete(slot.message.run)
    this.slots.set(slot.message.run, slot)
    return old
  }

  remove(slot: Slot): void {
    slot.isDropped = true
    if (this.slots.get(slot.message.run) === slot) this.slots.delete(slot.message.run)
  }

  clear(): void {
    for (const slot of this.slots.values()) slot.isDropped = true
    this.slots.clear()
  }

  /** Runs to forget, because there are too many. Only runs that nothing happens in can be forgotten. */
  surplus(): Slot[] {
    const surplus: Slot[] = []
    let over = this.slots.size - this.capacity
    if (over <= 0) return surplus
    for (const slot of this.slots.values()) {
      if (over === 0) break
      if (!slot.isIdle) continue
      surplus.push(slot)
      over--
    }
    return surplus
  }
}
