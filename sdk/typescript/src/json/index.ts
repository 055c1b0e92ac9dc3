export { JsonNumber, NULL, RawJson, isRawJson } from './raw.js'
export { parseEnvelope, parseJson, type Numbers } from './parse.js'
export { stringifyJson } from './stringify.js'
