export { type CrashOptions, crashEverywhere, crashReport } from './crash-everywhere.js'
export type { World } from './execution.js'
export { FakeProvider } from './fake-provider.js'
export { CrashError, type CrashFinding, CrashReport, type EffectReport, type Guarantee } from './report.js'
