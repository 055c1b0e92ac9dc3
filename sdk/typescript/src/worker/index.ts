export { Worker, type WorkerOptions } from './worker.js'
export type { HealthOptions } from './health.js'
