export * from './core/attempt.js'
export { Ctx } from './core/context.js'
