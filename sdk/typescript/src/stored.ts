import type { JsonNumber, RawJson } from './json/index.js'

/**
 * A type as it comes back from JSON: a `Date` is text, `undefined` is `null` at the top and absent in objects, methods are gone.
 */
export type Stored<T> = unknown extends T
  ? T
  : T extends string | number | boolean | null | bigint | JsonNumber
    ? T
    : T extends RawJson
      ? unknown
      : T extends undefined
        ? null
        : undefined extends T
          ? null
          : T extends { toJSON(): infer Json }
            ? Stored<Json>
            : T extends (...args: never[]) => unknown
              ? never
              : T extends readonly unknown[]
                ? { [Index in keyof T]: Stored<T[Index]> }
                : T extends object
                  ? { [Key in keyof T as T[Key] extends (...args: never[]) => unknown ? never : Key]: StoredField<T[Key]> }
                  : T

/** Like {@link Stored}, for a field, which may be absent. */
type StoredField<T> = T extends undefined ? undefined : Stored<T>
