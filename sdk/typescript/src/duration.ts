/** A span of time: milliseconds, or text such as `500ms`, `30s`, `1h30m`, `7d`. */
export type Duration = number | string

const UNITS: readonly (readonly [string, number])[] = [
  ['w', 604_800_000],
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
  ['ms', 1],
]

/** Milliseconds of a duration. */
export function parseDuration(duration: Duration): number {
  if (typeof duration === 'number') {
    if (!Number.isFinite(duration) || duration < 0) throw new TypeError(`${duration} is not a duration in milliseconds`)
    return Math.ceil(duration)
  }
  const wrong = () =>
    new TypeError(`${JSON.stringify(duration)} is not a duration: write milliseconds, or text such as 500ms, 30s, 5m, 24h, 7d or 1h30m`)
  let total = 0
  let last = Infinity
  let rest = duration
  if (rest === '') throw wrong()
  while (rest !== '') {
    const part = /^(\d+)(w|d|h|ms|m|s)/.exec(rest)
    const millis = UNITS.find(([unit]) => unit === part?.[2])?.[1]
    if (!part || millis === undefined || millis >= last) throw wrong()
    total += Number(part[1]) * millis
    last = millis
    rest = rest.slice(part[0].length)
  }
  return total
}

/** A duration as the server reads it. */
export function formatDuration(duration: Duration): string {
  let left = parseDuration(duration)
  if (typeof duration === 'string') return duration
  let text = ''
  for (const [unit, millis] of UNITS.slice(1)) {
    if (left >= millis) {
      text += `${Math.floor(left / millis)}${unit}`
      left %= millis
    }
  }
  return text === '' ? '0ms' : text
}
