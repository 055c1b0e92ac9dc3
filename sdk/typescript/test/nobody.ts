import { Hapax } from '../src/index.js'

/** A client of a server that is not there. */
export const client = new Hapax({ url: 'http://127.0.0.1:1', retryFor: 1 })
