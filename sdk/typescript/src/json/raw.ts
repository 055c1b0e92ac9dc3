import { brand } from '../brand.js'

/** JSON text that is kept byte for byte. Wherever a value is stored or sent, this text is put in as it is. */
export class RawJson {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }

  /** The text, so that `JSON.rawJSON`-aware code and logs show it. */
  toString(): string {
    return this.text
  }
}

/** Whether a value is a {@link RawJson}, of whichever copy of this package. */
export const isRawJson = brand(RawJson, 'RawJson')

/** The JSON value `null`. */
export const NULL = new RawJson('null')

/**
 * A number as it is written in JSON, for numbers that a JavaScript number cannot hold exactly. Arithmetic works on its
 * nearest double; `source` is what was written, and what is written again.
 */
export class JsonNumber {
  readonly source: string

  constructor(source: string) {
    if (!NUMBER.test(source)) throw new TypeError(`${JSON.stringify(source)} is not a JSON number`)
    this.source = source
  }

  /** The nearest double. */
  valueOf(): number {
    return Number(this.source)
  }

  toString(): string {
    return this.source
  }
}

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/

/** Whether a value is a {@link JsonNumber}, of whichever copy of this package. */
export const isJsonNumber = brand(JsonNumber, 'JsonNumber')
