/** A branch of a race. Once it has lost it asks for nothing more. */
export class Branch {
  lost = false

  constructor(readonly parent: Branch | undefined) {}

  /** Whether this branch, or one that it is part of, has lost. */
  get isLost(): boolean {
    return this.lost || (this.parent?.isLost ?? false)
  }

  isWithin(other: Branch): boolean {
    return this === other || (this.parent?.isWithin(other) ?? false)
  }
}
