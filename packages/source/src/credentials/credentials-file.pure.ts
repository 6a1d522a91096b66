// The file of --credentials: a YAML list of URL prefixes, each with one way to log in. Errors name lines, never values.
import { z } from 'zod'

const line = z.string().regex(/^[^\p{Cc}]*$/u, 'it has control characters')
const text = line.min(1, 'it is empty').max(65_536, 'it is too long')
const path = z
  .string()
  .regex(/^\/[^\0]*$/, 'it is not an absolute path')
  .max(4096)
const variable = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,254}$/, 'it is not the name of an environment variable')

/** Headers that belong to the request itself. */
const ownHeaders: ReadonlySet<string> = new Set([
  ...['accept-encoding', 'connection', 'content-length', 'content-type', 'expect', 'host', 'if-range', 'keep-alive', 'proxy-connection'],
  ...['range', 'te', 'trailer', 'transfer-encoding', 'upgrade', 'user-agent'],
])
const headerName = z
  .string()
  .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/, 'it is not the name of a header')
  .refine((name) => !ownHeaders.has(name.toLowerCase()), 'Muster sets this header itself')

const isOne = (...values: readonly unknown[]): boolean => values.filter((value) => value !== undefined).length === 1

const Basic = z
  .strictObject({
    username: line.max(4096).regex(/^[^:]*$/, 'it has a colon'),
    password: text.optional(),
    password_file: path.optional(),
    password_env: variable.optional(),
  })
  .refine((basic) => isOne(basic.password, basic.password_file, basic.password_env), {
    message: 'give exactly one of password, password_file and password_env',
  })
const Bearer = z
  .strictObject({ token: text.optional(), token_file: path.optional(), token_env: variable.optional() })
  .refine((bearer) => isOne(bearer.token, bearer.token_file, bearer.token_env), {
    message: 'give exactly one of token, token_file and token_env',
  })
const Header = z
  .strictObject({ name: headerName, value: text.optional(), value_file: path.optional(), value_env: variable.optional() })
  .refine((header) => isOne(header.value, header.value_file, header.value_env), {
    message: 'give exactly one of value, value_file and value_env',
  })

const prefix = z
  .string()
  .max(2048, 'it is too long')
  .refine(
    (given) => /^https?:\/\//i.test(given) && isPlainUrl(given),
    'it is not https://HOST[:PORT][/PATH] without a password, a query or a fragment',
  )

const isPlainUrl = (given: string): boolean => {
  const url = URL.parse(given)
  return url !== null && url.username === '' && url.password === '' && url.search === '' && url.hash === ''
}

const Entry = z
  .strictObject({ prefix, basic: Basic.optional(), bearer: Bearer.optional(), header: Header.optional() })
  .refine((entry) => isOne(entry.basic, entry.bearer, entry.header), { message: 'give exactly one of basic, bearer and header' })
export type CredentialEntry = z.infer<typeof Entry>

const mostEntries = 1_000
export const CredentialsFile = z.array(Entry).max(mostEntries)

/** The place of a secret: in the file, in another file, or in the environment. */
export type SecretPlace = Readonly<{ kind: 'text' | 'file' | 'env'; at: string }>

/** The header that an entry sends. `render` makes its value from the secret. */
export type CredentialHeader = Readonly<{ name: string; secret: SecretPlace; render: (secret: string) => string; username: string | null }>

export function headerOf({ basic, bearer, header }: CredentialEntry): CredentialHeader {
  if (basic !== undefined) {
    const { username } = basic
    const render = (secret: string): string => `Basic ${Buffer.from(`${username}:${secret}`).toString('base64')}`
    return { name: 'authorization', secret: placeOf(basic.password, basic.password_file, basic.password_env), render, username }
  }
  if (bearer !== undefined) {
    const secret = placeOf(bearer.token, bearer.token_file, bearer.token_env)
    return { name: 'authorization', secret, render: (token) => `Bearer ${token}`, username: null }
  }
  if (header === undefined) throw new Error('an entry without a way to log in was accepted')
  const secret = placeOf(header.value, header.value_file, header.value_env)
  return { name: header.name.toLowerCase(), secret, render: (value) => value, username: null }
}

function placeOf(inFile: string | undefined, file: string | undefined, env: string | undefined): SecretPlace {
  if (inFile !== undefined) return { kind: 'text', at: inFile }
  return file === undefined ? { kind: 'env', at: env ?? '' } : { kind: 'file', at: file }
}

/** The entry with the longest prefix of the URL; of equal ones the first. Whole segments of the path count: /a is no prefix of /ab. */
export function findEntry(entries: readonly CredentialEntry[], url: URL): CredentialEntry | null {
  let best: { readonly entry: CredentialEntry; readonly length: number } | null = null
  for (const entry of entries) {
    const given = new URL(entry.prefix)
    const length = given.pathname.length
    if (given.origin === url.origin && isBelow(url.pathname, given.pathname) && length > (best?.length ?? 0)) best = { entry, length }
  }
  return best?.entry ?? null
}

const isBelow = (path_: string, above: string): boolean => path_ === above || path_.startsWith(above.endsWith('/') ? above : `${above}/`)
