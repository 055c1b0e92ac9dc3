/**
 * Marks a class, so that its objects are known in another copy of this package too: a project may hold two, and `instanceof` tells
 * them apart.
 */
export function brand<T extends object>(type: { readonly prototype: T }, name: string): (value: unknown) => value is T {
  const mark = Symbol.for(`hapax.${name}`)
  Object.defineProperty(type.prototype, mark, { value: true })
  return (value): value is T => typeof value === 'object' && value !== null && mark in value
}
