// How values of the database arrive in TypeScript. Given to each pool: pg's own table of parsers is global and shared with everybody.
import { types, type CustomTypesConfig } from 'pg'

const { INT8, TIMESTAMPTZ, TIMESTAMP, DATE, INTERVAL } = types.builtins
const [int8Array, timestamptzArray] = [1016, 1185]

/** Numbers beyond 2^53 would change silently; no column of ours gets there. */
export function parseInt8(text: string): number {
  const value = Number(text)
  if (!Number.isSafeInteger(value)) throw new RangeError(`${text} does not fit into a JavaScript number`)
  return value
}

/** RFC 3339 in UTC with milliseconds, as the API shows it. PostgreSQL's microseconds are cut off. */
export function parseTimestamp(text: string): string {
  const [, date, time, fraction = '', sign, hours, minutes = '00'] =
    /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d+))?([+-])(\d\d)(?::(\d\d))?$/.exec(text) ?? []
  if (date === undefined || hours === undefined) throw new RangeError(`${text} is not a time between the years 1 and 9999`)
  return new Date(`${date}T${time}.${fraction.slice(0, 3).padEnd(3, '0')}${sign}${hours}:${minutes}`).toISOString()
}

type Parser = (text: string) => unknown

// An array of either holds neither quotes nor commas of its own, except that times are quoted.
const arrayOf =
  (parse: Parser): Parser =>
  (text) =>
    text === '{}'
      ? []
      : text
          .slice(1, -1)
          .split(',')
          .map((each) => (each === 'NULL' ? null : parse(each.replaceAll('"', ''))))

const asText: Parser = (text) => text

const parsers: ReadonlyMap<number, Parser> = new Map<number, Parser>([
  [INT8, parseInt8],
  [int8Array, arrayOf(parseInt8)],
  [TIMESTAMPTZ, parseTimestamp],
  [timestamptzArray, arrayOf(parseTimestamp)],
  // Without a time zone these are no moments; pg would make them moments of this machine's zone.
  [TIMESTAMP, asText],
  [DATE, asText],
  [INTERVAL, asText],
])

export const valueParsers: CustomTypesConfig = {
  getTypeParser: (oid, format) => (format === 'binary' ? undefined : parsers.get(oid)) ?? types.getTypeParser(oid, format),
}
