/** What a log line says besides its text. */
export type LogFields = Readonly<Record<string, unknown>>

/** Where log lines go. */
export interface Logger {
  /** For people who look for a mistake. */
  debug(message: string, fields?: LogFields): void
  /** What happened. */
  info(message: string, fields?: LogFields): void
  /** What may need attention. */
  warn(message: string, fields?: LogFields): void
  /** What needs attention. */
  error(message: string, fields?: LogFields): void
}

/** Level of a log line; `off` drops all. */
export type LogLevel = keyof Logger | 'off'

const LEVELS: readonly LogLevel[] = ['debug', 'info', 'warn', 'error', 'off']

/** Writes JSON lines to standard error, from this level on. */
export function jsonLogger(level: LogLevel = 'info', write: (line: string) => void = line => process.stderr.write(line)): Logger {
  const log = (at: LogLevel) => (message: string, fields: LogFields = {}) => {
    if (LEVELS.indexOf(at) < LEVELS.indexOf(level)) return
    const line = { time: new Date().toISOString(), level: at, message, ...fields }
    write(`${JSON.stringify(line, (_, value: unknown) => (typeof value === 'bigint' ? value.toString() : value))}\n`)
  }
  return { debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') }
}

/** Drops everything. */
export const silent: Logger = jsonLogger('off')
