/**
 * A provider for tests, in memory. With keys, a request under a key that it has seen gets the answer of the first.
 */
export class FakeProvider<Output = unknown> {
  private readonly answers = new Map<string, Output>()
  private effects = 0

  constructor(private readonly options: { honoursKeys?: boolean } = {}) {}

  /** Times that something happened. */
  get happened(): number {
    return this.effects
  }

  /** Does it, once per key if keys are honoured. */
  request(key: string, make: () => Output): Output {
    const known = this.answers.get(key)
    if (known !== undefined && this.options.honoursKeys !== false) return known
    const answer = make()
    this.effects++
    this.answers.set(key, answer)
    return answer
  }

  /** What happened under a key. */
  find(key: string): Output | undefined {
    return this.answers.get(key)
  }

  reset(): void {
    this.answers.clear()
    this.effects = 0
  }
}
