import { isJsonNumber, isRawJson } from './raw.js'

/**
 * Writes JSON. `bigint`, `JsonNumber` and `RawJson` are written as they are; `undefined` is `null` at the top. Numbers
 * that JSON cannot hold are refused, where `JSON.stringify` would write `null`.
 */
export function stringifyJson(value: unknown): string {
  return write(value, '', new Set()) ?? 'null'
}

function write(value: unknown, key: string, above: Set<object>): string | undefined {
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value)
    case 'number':
      if (!Number.isFinite(value)) throw new TypeError(`${value} cannot be stored: JSON has no such number`)
      return Object.is(value, -0) ? '0' : String(value)
    case 'boolean':
      return value ? 'true' : 'false'
    case 'bigint':
      return value.toString()
    case 'undefined':
    case 'function':
    case 'symbol':
      return undefined
    case 'object':
      return value === null ? 'null' : writeObject(value, key, above)
  }
}

function writeObject(value: object, key: string, above: Set<object>): string | undefined {
  if (isRawJson(value)) return value.text
  if (isJsonNumber(value)) return value.source
  if (value instanceof Map || value instanceof Set) {
    throw new TypeError(`a ${value instanceof Map ? 'Map' : 'Set'} cannot be stored: make it a list or an object`)
  }
  if (above.has(value)) throw new TypeError('a value that contains itself cannot be stored')
  if (hasToJson(value)) {
    const plain = value.toJSON(key)
    if (plain !== value) return write(plain, key, above)
  }
  above.add(value)
  const text = Array.isArray(value) ? writeList(value as unknown[], above) : writeFields(value, above)
  above.delete(value)
  return text
}

function writeList(list: unknown[], above: Set<object>): string {
  let text = '['
  for (let at = 0; at < list.length; at++) {
    if (at > 0) text += ','
    text += write(list[at], String(at), above) ?? 'null'
  }
  return text + ']'
}

function writeFields(object: object, above: Set<object>): string {
  let text = '{'
  for (const [key, value] of Object.entries(object)) {
    const written = write(value, key, above)
    if (written === undefined) continue
    if (text.length > 1) text += ','
    text += `${JSON.stringify(key)}:${written}`
  }
  return text + '}'
}

function hasToJson(value: object): value is { toJSON(key: string): unknown } {
  return 'toJSON' in value && typeof value.toJSON === 'function'
}
