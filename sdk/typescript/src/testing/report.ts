/** How an effect is protected against a repeat. */
export type EffectClass = 'idempotent' | 'claimed'

/** What became of one effect over all crashes. */
export interface EffectReport {
  readonly name: string
  readonly class: EffectClass
  /** Times it ran without a crash. */
  readonly usual: number
  /** Most times it ran. */
  readonly most: number
  /** Whether its code reads its key. */
  readonly readsKey: boolean
  /** Whether a crash can make it happen twice without the provider noticing. */
  readonly canHappenTwice: boolean
  /** Whether a crash can leave it in doubt. */
  readonly canBeInDoubt: boolean
  /** Whether a run can end without it because of a crash. */
  readonly canBeLeftUndone: boolean
}

/** What one crash led to. */
export interface CrashFinding {
  readonly crash: string
  readonly outcome: string
  /** Effects that ran before the crash. The fewer, the simpler the story. */
  readonly length: number
}

/** What a test requires of an effect. */
export type Guarantee = 'atMostOnce' | 'atLeastOnce' | 'exactlyOnce'

/** The run did not survive a crash, or did not end as expected. */
export class CrashError extends Error {
  constructor(
    message: string,
    readonly report: CrashReport,
  ) {
    super(message)
    this.name = 'CrashError'
  }
}

/** What crashing a workflow everywhere showed. */
export class CrashReport {
  constructor(
    /** Effects, in the order in which they begin. */
    readonly effects: readonly EffectReport[],
    /** Executions with a crash. */
    readonly crashes: number,
    /** Executions with a worker that was taken for dead and came back. */
    readonly zombies: number,
    /** How the run ends without a crash. */
    readonly usualEnd: string,
    /** What is wrong, the simplest first. */
    readonly findings: readonly CrashFinding[],
  ) {}

  /** The report on one effect. */
  effect(name: string): EffectReport {
    const found = this.effects.find(effect => effect.name === name)
    if (!found) throw new Error(`the workflow has no effect ${JSON.stringify(name)}; it has\n${this.toString()}`)
    return found
  }

  /** Throws unless the effect has this guarantee. */
  assertEffect(name: string, guarantee: Guarantee): void {
    const effect = this.effect(name)
    const atMostOnce = effect.most <= effect.usual
    const holds =
      guarantee === 'atMostOnce'
        ? atMostOnce
        : guarantee === 'atLeastOnce'
          ? !effect.canBeLeftUndone
          : atMostOnce && !effect.canBeLeftUndone && !effect.canBeInDoubt
    if (!holds) throw new CrashError(`effect ${JSON.stringify(name)} is not ${guarantee}: ${told(effect)}`, this)
  }

  /** Throws with the simplest finding, if there is one. */
  assertSafe(): void {
    const finding = this.findings[0]
    if (finding) throw new CrashError(`${finding.crash} → ${finding.outcome}\n\n${this.toString()}`, this)
  }

  toString(): string {
    return [`${this.crashes} crashes, ${this.zombies} zombies:`, ...this.effects.map(effect => `  ${told(effect)}`)].join('\n')
  }
}

function told(effect: EffectReport): string {
  const { name, usual, most } = effect
  const key = effect.readsKey ? ', under its key' : ', with nothing outside that would notice'
  return [
    `${name} (${effect.class}): entered ${usual} to ${most} times`,
    most > usual ? key : '',
    effect.canBeInDoubt ? ', may be in doubt' : '',
    effect.canBeLeftUndone ? ', may be left undone' : '',
  ].join('')
}
