// Translates values of LocalAI's environment variables to values of Muster's settings. Null: the value asks for nothing that
// Muster has. An Error names a value that LocalAI would refuse too.

export type Environment = Readonly<Record<string, string | undefined>>
/** One unparsed value per setting value, as the configuration file has them. */
export type TranslatedValues = readonly string[] | null
export type TranslateValue = (value: string, env: Environment) => TranslatedValues

export const sameValue: TranslateValue = (value) => [value]

/** `a=1,b=2` */
export const splitAtCommas: TranslateValue = (value) => {
  const parts = value
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
  return parts.length === 0 ? null : parts
}

const offWords: ReadonlySet<string> = new Set(['', '0', 'f', 'false', 'no', 'off', '0s'])
/** A variable with this value asks for nothing. */
export const isOff = (value: string): boolean => offWords.has(value.trim().toLowerCase())

/** Go's words for true and false. */
export const toTruth: TranslateValue = (value) => [['t', 'true', '1', 'yes', 'on'].includes(value.trim().toLowerCase()) ? 'true' : value]

const addressForm = /^(?:\[(?<v6>[0-9A-Fa-f:.%]+)\]|(?<host>[^:[\]]*)):(?<port>\d+)$/

/** `:8080` listens on every address. */
export const toHost: TranslateValue = (value) => {
  const { v6, host } = partsOf(value)
  return [v6 ?? (host === undefined || host === '' ? '0.0.0.0' : host)]
}

export const toPort: TranslateValue = (value) => [partsOf(value)['port'] ?? '']

function partsOf(value: string): Readonly<Record<string, string | undefined>> {
  const found = addressForm.exec(value.trim())
  if (found?.groups === undefined) throw new Error(`"${value}" is not an address: LocalAI writes :8080 or 127.0.0.1:8080`)
  return found.groups
}

const levels: Readonly<Record<string, string>> = { trace: 'debug', warning: 'warn', fatal: 'error' }
export const toLogLevel: TranslateValue = (value) => [levels[value.toLowerCase()] ?? value.toLowerCase()]
/** `default` is text too. */
export const toLogFormat: TranslateValue = (value) => [value.toLowerCase() === 'json' ? 'json' : 'text']

/** LocalAI's `disable` has no equivalent: a build is always chosen. */
export const toCapability: TranslateValue = (value) => (value === 'disable' ? null : [value])

/** The check stays, as a warning. */
export const toDiskCheck: TranslateValue = (value) => [isOff(value) ? 'warn' : 'refuse']

/** One active backend is one replica on the machine. */
export const toSingleReplica: TranslateValue = (value) => (isOff(value) ? null : ['1'])

/** The models directory, when LocalAI shares it between all machines. */
export const toSharedDirectory: TranslateValue = (value, env) => {
  const path = env['LOCALAI_MODELS_PATH'] ?? env['MODELS_PATH'] ?? ''
  return isOff(value) || !path.startsWith('/') ? null : [path]
}

/** A mirror may be named without its scheme. */
export const toEndpoint: TranslateValue = (value) => [/^https?:\/\//i.test(value) ? value : `https://${value}`]

export interface TranslatedGallery {
  readonly name: string
  readonly url: string
}

/** `[{name, url, mirrors[]}]` as JSON; each mirror becomes a gallery of its own, after the one it mirrors. */
export function readGalleries(json: unknown, kind: 'model' | 'backend'): TranslatedGallery[] {
  if (!Array.isArray(json)) throw new Error('it is not a JSON list of galleries: [{"name": "…", "url": "…"}]')
  const found = json.flatMap((entry: unknown, at): TranslatedGallery[] => {
    const { name, url, mirrors } = fieldsOf(entry)
    if (typeof name !== 'string' || typeof url !== 'string' || name === '' || url === '')
      throw new Error(`gallery ${at + 1} has no name or no url`)
    const own = galleryName(name, kind)
    const others = (Array.isArray(mirrors) ? mirrors : []).filter((mirror) => typeof mirror === 'string')
    return [
      { name: own, url: galleryUrl(url) },
      ...others.map((mirror, index) => ({ name: `${own.slice(0, 50)}-mirror-${index + 1}`, url: galleryUrl(mirror) })),
    ]
  })
  return found.filter(({ name }, at) => found.findIndex((other) => other.name === name) === at)
}

export const toGalleries =
  (kind: 'model' | 'backend'): TranslateValue =>
  (value) =>
    readGalleries(parseList(value), kind).map(({ name, url }) => `${name}=${url}`)

const fieldsOf = (value: unknown): Readonly<Record<string, unknown>> => (typeof value === 'object' && value !== null ? { ...value } : {})

function parseList(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/**
 * LocalAI has one list of names per kind, and calls its own gallery `localai` in both; Muster has one list. Galleries of
 * models keep their name, because clients write `localai@MODEL`.
 */
function galleryName(name: string, kind: 'model' | 'backend'): string {
  const plain = name.replaceAll(/[^A-Za-z0-9._-]/g, '-').replace(/^[._-]+/, '')
  const base = plain === '' ? 'gallery' : plain.slice(0, 50)
  return kind === 'model' || /backend/i.test(base) ? base : `${base}-backends`
}

/** A plain path names a file of the machine. */
const galleryUrl = (url: string): string => (url.startsWith('/') ? `file://${url}` : url)
