import { Failure } from './failure.js'

/** The part of [Standard Schema](https://standardschema.dev) that is used: zod, valibot, arktype and others have it. */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => ValidationResult<Output> | Promise<ValidationResult<Output>>
    readonly types?: { readonly input: Input; readonly output: Output } | undefined
  }
}

type ValidationResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly ValidationIssue[] }

interface ValidationIssue {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}

/** Most issues that an error names. */
const MAX_ISSUES = 10

/** Checks a value, and returns what the schema makes of it. A value that does not fit is a failure with this code. */
export async function validate<Output>(
  schema: StandardSchema<unknown, Output>,
  value: unknown,
  what: string,
  code = 'input_invalid',
): Promise<Output> {
  return accepted(await schema['~standard'].validate(value), what, code)
}

/** Like {@link validate}, for places where nothing can be waited for. */
export function validateNow<Output>(schema: StandardSchema<unknown, Output>, value: unknown, what: string, code: string): Output {
  const result = schema['~standard'].validate(value)
  if (result instanceof Promise) throw Failure.permanent(`the schema of ${what} is asynchronous; use one that is not`, { code: 'invalid' })
  return accepted(result, what, code)
}

function accepted<Output>(result: ValidationResult<Output>, what: string, code: string): Output {
  if (result.issues === undefined) return result.value
  const told = result.issues.slice(0, MAX_ISSUES).map(issue => {
    const path = (issue.path ?? []).map(part => String(typeof part === 'object' ? part.key : part)).join('.')
    return path === '' ? issue.message : `${path}: ${issue.message}`
  })
  throw Failure.permanent(`${what} is not valid: ${told.join('; ')}`, { code })
}
