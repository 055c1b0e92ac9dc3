/**
 * A clock for holds: milliseconds, which never go back, and which count time that the machine spent suspended.
 *
 * Node.js has no `CLOCK_BOOTTIME`. Its monotonic clock stands still while the machine is suspended, its wall clock can be set. So
 * each step forward is the larger of both. A wall clock that is set forward ends holds early, which is safe; one that is set back
 * counts for nothing.
 */
export class HoldClock {
  private elapsed = 0
  private wall: number
  private steady: number

  constructor(
    private readonly readWall: () => number = () => Date.now(),
    private readonly readSteady: () => number = () => performance.now(),
  ) {
    this.wall = readWall()
    this.steady = readSteady()
  }

  now(): number {
    const wall = this.readWall()
    const steady = this.readSteady()
    this.elapsed += Math.max(0, wall - this.wall, steady - this.steady)
    this.wall = wall
    this.steady = steady
    return this.elapsed
  }
}

/** Lets the process end while the timer waits, where that is a question. */
export function unref(timer: unknown): void {
  ;(timer as { unref?: () => void }).unref?.()
}

/** Longest time that one timer may wait. */
const LONGEST_TIMER = 2_147_483_647

/** The right to begin effects, until a point in time. */
export class Hold {
  private until = -1
  private timer: ReturnType<typeof setTimeout> | undefined
  private waiting: (() => void)[] = []

  constructor(
    private readonly clock: HoldClock,
    private readonly onEnd: () => void,
  ) {}

  get isHeld(): boolean {
    return this.clock.now() < this.until
  }

  now(): number {
    return this.clock.now()
  }

  /** Milliseconds that are left. */
  get left(): number {
    return Math.max(0, this.until - this.clock.now())
  }

  /** Holds until `span` after the request left. The latest end that any answer gave counts. */
  extend(sentAt: number, span: number): void {
    const until = sentAt + span
    if (until <= this.until) return
    this.until = until
    this.watch()
    if (!this.isHeld) return
    const waiting = this.waiting
    this.waiting = []
    for (const goOn of waiting) goOn()
  }

  /** Calls back when effects may begin again. */
  whenHeld(goOn: () => void): void {
    this.waiting.push(goOn)
  }

  /** Gives the hold back. */
  release(): void {
    this.until = -1
    this.waiting = []
    clearTimeout(this.timer)
    this.timer = undefined
  }

  private watch(): void {
    // One timer at a time. If it fires early, because the hold was extended, it waits for the rest.
    if (this.timer !== undefined) return
    this.timer = setTimeout(
      () => {
        this.timer = undefined
        if (this.isHeld) this.watch()
        else if (this.until >= 0) this.onEnd()
      },
      Math.min(this.left + 1, LONGEST_TIMER),
    )
    unref(this.timer)
  }
}
