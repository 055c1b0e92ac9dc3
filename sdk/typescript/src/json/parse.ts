import { JsonNumber, RawJson } from './raw.js'

/**
 * What becomes of numbers that a JavaScript number cannot hold:
 *
 * - `bigint` (default): integers beyond 2^53 become `bigint`, decimals become the nearest `number`.
 * - `exact`: integers beyond 2^53 become `bigint`; a decimal that would be written differently becomes a {@link JsonNumber}.
 * - `number`: everything becomes the nearest `number`.
 */
export type Numbers = 'bigint' | 'exact' | 'number'

/** How deep JSON may be nested. */
const MAX_DEPTH = 500

/** Whether a text may hold a number that needs more care than `JSON.parse` takes. Strings may raise it for nothing. */
const UNSAFE_INTEGER = /\d{16}/
const INEXACT = /\d{16}|\d\.\d|\d[eE]|-0/

/** Parses JSON. Numbers become what `numbers` says. */
export function parseJson(text: string, numbers: Numbers = 'bigint'): unknown {
  const careful = numbers === 'bigint' ? UNSAFE_INTEGER : INEXACT
  if (numbers === 'number' || !careful.test(text)) return JSON.parse(text) as unknown
  const parser = new Parser(text, numbers, NO_KEYS)
  return parser.document()
}

/** Parses JSON, and keeps the values of the fields `rawKeys` as text, at any depth. */
export function parseEnvelope(text: string, rawKeys: ReadonlySet<string>): unknown {
  return new Parser(text, 'number', rawKeys).document()
}

const NO_KEYS: ReadonlySet<string> = new Set()

const Code = {
  Tab: 9,
  LineFeed: 10,
  Return: 13,
  Space: 32,
  Quote: 34,
  Comma: 44,
  Minus: 45,
  Zero: 48,
  Nine: 57,
  Colon: 58,
  OpenList: 91,
  Backslash: 92,
  CloseList: 93,
  OpenObject: 123,
  CloseObject: 125,
} as const

class Parser {
  private at = 0
  private depth = 0

  constructor(
    private readonly text: string,
    private readonly numbers: Numbers,
    private readonly rawKeys: ReadonlySet<string>,
  ) {}

  document(): unknown {
    const value = this.value()
    this.space()
    if (this.at !== this.text.length) throw this.wrong()
    return value
  }

  private value(): unknown {
    this.space()
    const code = this.text.charCodeAt(this.at)
    switch (code) {
      case Code.OpenObject:
        return this.object()
      case Code.OpenList:
        return this.list()
      case Code.Quote:
        return this.string()
      default:
        return code === Code.Minus || (code >= Code.Zero && code <= Code.Nine) ? this.number() : this.word()
    }
  }

  private object(): Record<string, unknown> {
    const object: Record<string, unknown> = {}
    this.enter()
    this.space()
    if (this.skip(Code.CloseObject)) return this.leave(object)
    for (;;) {
      this.space()
      if (this.text.charCodeAt(this.at) !== Code.Quote) throw this.wrong()
      const key = this.string()
      this.space()
      if (!this.skip(Code.Colon)) throw this.wrong()
      const value = this.rawKeys.has(key) ? this.raw() : this.value()
      if (key === '__proto__') Object.defineProperty(object, key, { value, enumerable: true, writable: true, configurable: true })
      else object[key] = value
      this.space()
      if (this.skip(Code.Comma)) continue
      if (this.skip(Code.CloseObject)) return this.leave(object)
      throw this.wrong()
    }
  }

  private list(): unknown[] {
    const list: unknown[] = []
    this.enter()
    this.space()
    if (this.skip(Code.CloseList)) return this.leave(list)
    for (;;) {
      list.push(this.value())
      this.space()
      if (this.skip(Code.Comma)) continue
      if (this.skip(Code.CloseList)) return this.leave(list)
      throw this.wrong()
    }
  }

  private string(): string {
    const begin = this.at
    const end = this.endOfString()
    this.at = end
    const plain = this.text.slice(begin + 1, end - 1)
    return this.escaped ? (JSON.parse(this.text.slice(begin, end)) as string) : plain
  }

  private escaped = false

  /** Place behind the string that begins here. */
  private endOfString(): number {
    const text = this.text
    this.escaped = false
    for (let at = this.at + 1; at < text.length; at++) {
      const code = text.charCodeAt(at)
      if (code === Code.Quote) return at + 1
      if (code === Code.Backslash) {
        this.escaped = true
        at++
      } else if (code < Code.Space) break
    }
    throw this.wrong()
  }

  private number(): unknown {
    NUMBER.lastIndex = this.at
    const source = NUMBER.exec(this.text)?.[0]
    if (source === undefined) throw this.wrong()
    this.at += source.length
    const value = Number(source)
    if (this.numbers === 'number') return value
    const isInteger = INTEGER.test(source) && source !== '-0'
    if (isInteger) return Number.isSafeInteger(value) ? value : BigInt(source)
    return this.numbers === 'exact' && String(value) !== source ? new JsonNumber(source) : value
  }

  private word(): unknown {
    for (const [word, value] of WORDS) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length
        return value
      }
    }
    throw this.wrong()
  }

  /** The value that begins here, as text. */
  private raw(): RawJson {
    this.space()
    const begin = this.at
    this.skipValue()
    return new RawJson(this.text.slice(begin, this.at))
  }

  /** Goes behind a value. Its insides are checked when it is decoded. */
  private skipValue(): void {
    let depth = 0
    do {
      this.space()
      const code = this.text.charCodeAt(this.at)
      if (code === Code.Quote) this.at = this.endOfString()
      else if (code === Code.OpenObject || code === Code.OpenList) {
        depth++
        this.at++
      } else if (code === Code.CloseObject || code === Code.CloseList) {
        depth--
        this.at++
      } else if (depth > 0 && (code === Code.Comma || code === Code.Colon)) this.at++
      else if (code === Code.Minus || (code >= Code.Zero && code <= Code.Nine)) this.number()
      else this.word()
    } while (depth > 0)
  }

  private space(): void {
    for (;;) {
      const code = this.text.charCodeAt(this.at)
      if (code !== Code.Space && code !== Code.LineFeed && code !== Code.Return && code !== Code.Tab) return
      this.at++
    }
  }

  private skip(code: number): boolean {
    const isThere = this.text.charCodeAt(this.at) === code
    if (isThere) this.at++
    return isThere
  }

  private enter(): void {
    this.at++
    if (++this.depth > MAX_DEPTH) throw new SyntaxError(`JSON is nested more than ${MAX_DEPTH} deep`)
  }

  private leave<T>(value: T): T {
    this.depth--
    return value
  }

  private wrong(): SyntaxError {
    const what = this.at < this.text.length ? JSON.stringify(this.text[this.at]) : 'the end'
    return new SyntaxError(`unexpected ${what} in JSON at position ${this.at}`)
  }
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y
const INTEGER = /^-?\d+$/
const WORDS: readonly (readonly [string, unknown])[] = [
  ['true', true],
  ['false', false],
  ['null', null],
]
