// Generates tables.ts, the table types of kysely, from a migrated database.
import type { Pool } from 'pg'

type Column = Readonly<{
  table: string
  name: string
  type: string
  nullable: boolean
  source: 'given' | 'defaulted' | 'computed'
  checks: readonly string[]
}>

const typeOf: Readonly<Record<string, string>> = {
  text: 'string',
  uuid: 'string',
  bool: 'boolean',
  int2: 'number',
  int4: 'number',
  int8: 'number',
  float4: 'number',
  float8: 'number',
  bytea: 'Buffer',
  json: 'Json',
  jsonb: 'Json',
  timestamptz: 'Timestamp',
}
const lineWidth = 140

export async function generateTableTypes(pool: Pool): Promise<string> {
  const columns = await readColumns(pool)
  const odd = columns.find(({ table, name }) => !/^[a-z][a-z0-9_]*$/.test(table) || !/^[a-z][a-z0-9_]*$/.test(name))
  if (odd !== undefined) throw new Error(`${odd.table}.${odd.name}: names are snake_case`)
  const tables = Map.groupBy(columns, (column) => column.table)
  const interfaces = [...tables].map(
    ([table, own]) => `export interface ${interfaceName(table)} {\n${own.map((column) => `  ${property(column)}`).join('\n')}\n}`,
  )
  const database = `export interface Database {\n${[...tables.keys()].map((table) => `  ${table}: ${interfaceName(table)}`).join('\n')}\n}`
  const body = [...interfaces, database].join('\n\n')
  const used = ['Computed', 'Defaulted', 'Json', 'Timestamp'].filter((name) => new RegExp(`\\b${name}\\b`).test(body))
  const imports = used.length === 0 ? '' : `import type { ${used.join(', ')} } from './column-types.ts'\n`
  return `// Generated from the migrations by \`npm run db:dump\`. Do not edit.\n${imports}\n${body}\n`
}

async function readColumns(pool: Pool): Promise<readonly Column[]> {
  const result = await pool.query<Column>(`
    select c.relname::text as table, a.attname::text as name, t.typname::text as type, not a.attnotnull as nullable,
      case when a.attidentity = 'a' or a.attgenerated <> '' then 'computed'
           when a.attidentity = 'd' or a.atthasdef then 'defaulted' else 'given' end as source,
      array(select pg_get_constraintdef(k.oid) from pg_constraint k
            where k.conrelid = c.oid and k.contype = 'c' and k.conkey = array[a.attnum] order by k.conname) as checks
    from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_type t on t.oid = a.atttypid
    where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and a.attnum > 0 and not a.attisdropped
    order by c.relname, a.attnum`)
  return result.rows
}

/** Formatted like oxfmt does. */
export function property(column: Column): string {
  const wrapper = { given: null, defaulted: 'Defaulted', computed: 'Computed' }[column.source]
  const cases = [valueType(column), ...(column.nullable ? ['null'] : [])].join(' | ')
  const line = `${column.name}: ${wrapper === null ? cases : `${wrapper}<${cases}>`}`
  if (line.length + 2 <= lineWidth) return line
  const lines = cases
    .split(' | ')
    .map((each) => `    | ${each}`)
    .join('\n')
  return wrapper === null ? `${column.name}:\n${lines}` : `${column.name}: ${wrapper}<\n${lines}\n  >`
}

function valueType(column: Column): string {
  const isArray = column.type.startsWith('_')
  const element = typeOf[isArray ? column.type.slice(1) : column.type]
  if (element === undefined) throw new Error(`${column.table}.${column.name}: say in table-types.ts what ${column.type} is in TypeScript`)
  const literals = literalsOf(column)
  const type = element === 'string' && literals.length > 0 ? literals.join(' | ') : element
  if (!isArray) return type
  return literals.length > 1 ? `(${type})[]` : `${type}[]`
}

/** The values that a check allows: `x in ('a', 'b')`, `x is null or x in (…)`, `x = 'a'`, and for arrays `x <@ array['a', 'b']`. */
export function literalsOf({ name, checks }: Pick<Column, 'name' | 'checks'>): readonly string[] {
  const literal = String.raw`'(?:[^']|'')*'::text`
  const list = String.raw`ARRAY\[(${literal}(?:, ${literal})*)\]`
  const self = `"?${name}"?`
  const orNull = String.raw`(?:\(${self} IS NULL\) OR )?`
  const forms = [
    String.raw`\(${orNull}\(?${self} = ANY \(${list}\)\)?\)`,
    String.raw`\(${orNull}\(?${self} = (${literal})\)?\)`,
    String.raw`\(${orNull}\(?${self} <@ ${list}\)?\)`,
  ]
  for (const check of checks) {
    for (const form of forms) {
      const found = new RegExp(String.raw`^CHECK \(${form}\)$`).exec(check)?.[1]
      if (found === undefined) continue
      return [...found.matchAll(new RegExp(literal, 'g'))].map(([text]) => quote(text.slice(1, -"'::text".length).replaceAll("''", "'")))
    }
  }
  return []
}

function quote(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}

function interfaceName(table: string): string {
  return `${table
    .split('_')
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join('')}Table`
}
