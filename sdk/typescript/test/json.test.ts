import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { JsonNumber, RawJson, parseEnvelope, parseJson, stringifyJson } from '../src/json/index.js'

describe('JSON', () => {
  test('integers beyond 2^53 are bigint, and are written as they were', () => {
    const text = '{"a":9007199254740993,"b":[-9223372036854775808],"c":9007199254740991}'
    const value = parseJson(text)
    assert.deepEqual(value, { a: 9_007_199_254_740_993n, b: [-9_223_372_036_854_775_808n], c: 9_007_199_254_740_991 })
    assert.equal(stringifyJson(value), text)
  })

  test('exact numbers are written as they were', () => {
    const text = '[1.10,1e400,-0.0,-0,0.1,1E5,0.1000000000000000055511151231257827,12345678901234567890.5]'
    const value = parseJson(text, 'exact') as unknown[]
    assert.equal(stringifyJson(value), text)
    assert.ok(value[0] instanceof JsonNumber)
    assert.equal(Number(value[0]) * 2, 2.2)
    assert.equal(value[4], 0.1)
  })

  test('the fast way and the careful way read the same', () => {
    const texts = ['{"a":[1,2.5,-3e-2,true,false,null,"x\\n\\u0041\\ud83d\\ude00 é"]}', ' [ ] ', '{}', '"\\\\"', '0', '{"":{"__proto__":1}}']
    for (const text of texts) {
      const careful = parseJson(`[9007199254740993,${text}]`) as unknown[]
      assert.deepEqual(careful[1], JSON.parse(text))
      assert.deepEqual(parseJson(text), JSON.parse(text))
    }
  })

  test('what is no JSON is refused', () => {
    for (const text of ['', '{', '[1,]', '{"a"}', '{a:1}', '01', '1.', 'nul', '"\n"', '[1] 2', "'a'", '\u00a01']) {
      assert.throws(() => parseJson(`[9007199254740993,${text}`), SyntaxError, text)
      assert.throws(() => parseEnvelope(text, new Set()), SyntaxError, text)
    }
    assert.throws(() => parseJson(`${'['.repeat(2000)}9007199254740993`), /nested more than 500 deep/)
  })

  test('an envelope keeps payloads byte for byte', () => {
    const text = '{"op":4, "output" : { "a" : 1.10, "b":"\\u00e9", "c":[ 1 , {} ] } ,"log":[{"output":"x\\"y"}]}'
    const { op, output, log } = parseEnvelope(text, new Set(['output'])) as { op: number; output: RawJson; log: { output: RawJson }[] }
    assert.equal(op, 4)
    assert.equal(output.text, '{ "a" : 1.10, "b":"\\u00e9", "c":[ 1 , {} ] }')
    assert.equal(log[0]?.output.text, '"x\\"y"')
    assert.equal(stringifyJson({ output }), `{"output":${output.text}}`)
  })

  test('writes what JSON.stringify writes, and refuses what it would lose', () => {
    const values = [{ a: undefined, b: [undefined, null], c: new Date(0), d: 'é\u2028"', e: { toJSON: () => 5 } }, 'x', 1.5, true, null]
    for (const value of values) assert.equal(stringifyJson(value), JSON.stringify(value))
    assert.equal(stringifyJson(undefined), 'null')
    for (const value of [NaN, Infinity, new Map(), new Set([1])]) assert.throws(() => stringifyJson({ value }), TypeError)
    const loop: Record<string, unknown> = {}
    loop.self = loop
    assert.throws(() => stringifyJson(loop), /contains itself/)
  })
})
