export { type PushHandler, type PushOptions, pushHandler } from './handler.js'
