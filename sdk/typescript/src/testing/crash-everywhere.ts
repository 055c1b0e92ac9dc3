import { RawJson, stringifyJson } from '../json/index.js'
import type { AnyWorkflow, InputOf } from '../workflow.js'
import { type End, type Execution, type ExecutionPlan, type Fault, type Place, type World, execute } from './execution.js'
import { type CrashFinding, CrashReport, type EffectClass, type EffectReport } from './report.js'

/** Options of `crashEverywhere`. */
export interface CrashOptions {
  /** Acts for the outside world whenever the run waits: settles promises, sends signals. It is called again after each crash. */
  outside?: (world: World) => void | Promise<void>
  /** Other workflows that the workflow starts. */
  also?: readonly AnyWorkflow[]
  /** Fake providers that the workflow calls. They are reset before each execution. */
  providers?: readonly { reset?(): void }[]
  /** Steps that may run again without a key, for example because they set a value. */
  repeatable?: readonly string[]
  /** How the run is meant to end; `completed` by default. */
  expect?: 'completed' | 'failed' | 'waiting'
}

/**
 * Crashes a workflow at every message between server and worker, in memory, and checks that no effect happens twice and that the
 * run ends the same. Also, at each outcome, the worker is taken for dead, another takes over, and the first comes back.
 *
 * Throws the simplest story in which harm is done. A run that does not complete without a crash proves nothing, so it throws as
 * well, unless `expect` says otherwise.
 *
 * ```ts
 * test("a crash anywhere charges once", async () => {
 *   const report = await crashEverywhere(order, { id: "4711", cents: 1999 })
 *   report.assertEffect("charge", "atLeastOnce")
 * })
 * ```
 */
export async function crashEverywhere<W extends AnyWorkflow>(workflow: W, input: InputOf<W>, options: CrashOptions = {}): Promise<CrashReport> {
  const report = await crashReport(workflow, input, options)
  report.assertSafe()
  return report
}

/** Like {@link crashEverywhere}, but returns what it found. */
export async function crashReport<W extends AnyWorkflow>(workflow: W, input: InputOf<W>, options: CrashOptions = {}): Promise<CrashReport> {
  const { outside, also = [], providers = [], repeatable = [], expect = 'completed' } = options
  const plan: ExecutionPlan = { workflow, also, input: new RawJson(stringifyJson(input)), outside, providers }
  const usual = await execute(plan)
  const faults: Faulted[] = []
  for (const place of usual.places) {
    for (const kind of faultsAt(place)) {
      const execution = await execute(plan, { place, kind })
      if (execution.hasFaulted) faults.push({ place, kind, execution })
    }
  }
  const effects = effectNames(usual, faults).map(name => judge(name, usual, faults, repeatable))
  const findings = [
    ...unexpected(usual, expect),
    ...effects.flatMap(effect => effect.findings),
    ...faults.flatMap(fault => endedDifferently(usual, fault)),
  ].sort((one, other) => one.length - other.length)
  const count = (kind: Fault) => faults.filter(fault => fault.kind === kind).length
  const reports = effects.map(effect => effect.report)
  return new CrashReport(reports, count('crash'), count('zombie'), usual.end, findings)
}

interface Faulted {
  place: Place
  kind: Fault
  execution: Execution
}

function faultsAt({ point }: Place): Fault[] {
  return point === 'after_effect' || point === 'before_commit' ? ['crash', 'zombie'] : ['crash']
}

function effectNames(usual: Execution, faults: readonly Faulted[]): string[] {
  return [...new Set([usual, ...faults.map(fault => fault.execution)].flatMap(execution => [...execution.entered.keys()]))]
}

function judge(name: string, usual: Execution, faults: readonly Faulted[], repeatable: readonly string[]): { report: EffectReport; findings: CrashFinding[] } {
  const executions = [usual, ...faults.map(fault => fault.execution)]
  const count = (execution: Execution) => execution.entered.get(name) ?? 0
  const effectClass: EffectClass = executions.map(execution => execution.steps.get(name)?.class).find(found => found !== undefined) ?? 'idempotent'
  const readsKey = executions.some(execution => execution.keysRead.has(name))
  const mayRepeat = effectClass === 'idempotent' && (readsKey || repeatable.includes(name))
  const again = faults.filter(({ execution }) => count(execution) > count(usual))
  const findings = mayRepeat ? [] : again.map(fault => finding(fault, twice(name, effectClass)))
  const wasDone = usual.steps.get(name)?.isDone === true
  const report: EffectReport = {
    name,
    class: effectClass,
    usual: count(usual),
    most: Math.max(...executions.map(count)),
    readsKey,
    canHappenTwice: findings.length > 0,
    canBeInDoubt: faults.some(({ execution }) => execution.inDoubt.has(name)),
    canBeLeftUndone: faults.some(({ execution }) => wasDone && execution.steps.get(name)?.isDone !== true && execution.inDoubt.size === 0),
  }
  return { report, findings }
}

function endedDifferently(usual: Execution, fault: Faulted): CrashFinding[] {
  const { execution } = fault
  const deviates = execution.violation !== undefined && usual.violation === undefined
  if ((execution.end === usual.end && !deviates) || execution.inDoubt.size > 0) return []
  const text =
    execution.violation === undefined
      ? `the run is ${execution.end} instead of ${usual.end}${execution.why}`
      : `the workflow is not deterministic: ${execution.violation}`
  return [finding(fault, text)]
}

function unexpected(usual: Execution, expect: NonNullable<CrashOptions['expect']>): CrashFinding[] {
  const isMet: Record<typeof expect, boolean> = {
    completed: usual.end === 'completed',
    failed: usual.end === 'failed' || usual.end === 'cancelled',
    waiting: usual.end === 'waiting' && usual.violation === undefined,
  }
  if (isMet[expect]) return []
  const told =
    usual.violation === undefined
      ? `the run is ${usual.end}${usual.why}; ${advice(usual.end, expect)}`
      : `the workflow is not deterministic: ${usual.violation}`
  return [{ crash: 'without a crash', outcome: told, length: -1 }]
}

function advice(end: End, expect: NonNullable<CrashOptions['expect']>): string {
  if (expect !== 'completed') return `leave { expect: "${expect}" } out if that is not meant`
  if (end === 'waiting') {
    return 'give it what it waits for with { outside }, name its children with { also }, or say { expect: "waiting" } if it is meant to wait'
  }
  return 'repair the workflow, or say { expect: "failed" } if it is meant to fail'
}

function finding({ place, kind, execution }: Faulted, outcome: string): CrashFinding {
  const at = where(place)
  const crash = kind === 'crash' ? `crash ${at}` : `a worker that stopped ${at} and came back after another had taken over`
  return { crash, outcome, length: execution.enteredBefore }
}

function where({ point, step, nth }: Place): string {
  switch (point) {
    case 'before_effect':
      return `before \`${step ?? ''}\` ran`
    case 'after_effect':
      return `after \`${step ?? ''}\` ran and before it was recorded`
    case 'before_message':
      return `before the ${ordinal(nth)} message arrived`
    case 'before_commit':
      return `before the ${ordinal(nth)} commit was written`
    case 'after_commit':
      return `after the ${ordinal(nth)} commit was written`
  }
}

function twice(step: string, effectClass: EffectClass): string {
  if (effectClass === 'idempotent') return `\`${step}\` ran twice; declare it claimed, give it a probe, or make it idempotent by key`
  return `\`${step}\` ran twice, though it is claimed: onDoubt may say "retry", or the code fails and tries again`
}

function ordinal(n: number): string {
  return ['first', 'second', 'third'][n - 1] ?? `${n}th`
}
