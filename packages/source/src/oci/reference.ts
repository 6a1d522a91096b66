// The name of an image: `oci://host/name:tag`, `host/name:tag`, `…@sha256:…`, and Docker's shorthands. An
// invalid name is refused, never repaired: the parts become URLs, and two spellings of one name would be two images.
import { Digest, FleetError } from '@muster/protocol'

export type OciReference = Readonly<{
  /** Host and port of the name. */
  registry: string
  repository: string
  /** Null only beside a digest. */
  tag: string | null
  digest: Digest | null
}>

const longest = 1024
const longestRepository = 255
const component = '[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*'
const repositoryForm = new RegExp(`^${component}(?:/${component})*$`)
const tagForm = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/
const dockerHub = 'docker.io'

export function parseReference(text: string): OciReference {
  if (text.length > longest) return refuse(text.slice(0, 100), `longer than ${longest} characters`)
  const hasScheme = text.startsWith('oci://')
  const bare = hasScheme ? text.slice('oci://'.length) : text
  const [name = '', digest, ...more] = bare.split('@')
  if (more.length > 0) return refuse(text, 'more than one @')
  const { rest, tag } = splitTag(name)
  const { registry, path } = splitRegistry(rest, hasScheme)
  if (!isHost(registry)) return refuse(text, `"${registry}" is not a host or host:port`)
  if (path.length > longestRepository || !repositoryForm.test(path))
    return refuse(text, `"${path.slice(0, 60)}" is not a repository: lower-case letters, digits, . _ - and /`)
  if (tag !== null && !tagForm.test(tag)) return refuse(text, `"${tag.slice(0, 60)}" is not a tag`)
  const parsed = digest === undefined ? null : Digest.safeParse(digest)
  if (parsed?.success === false) return refuse(text, 'a digest is sha256: and 64 lower-case hex digits')
  return { registry, repository: path, tag: tag ?? (parsed === null ? 'latest' : null), digest: parsed?.data ?? null }
}

export function formatReference({ registry, repository, tag, digest }: OciReference): string {
  return `${registry}/${repository}${tag === null ? '' : `:${tag}`}${digest === null ? '' : `@${digest}`}`
}

/** A colon after the last slash begins a tag; one before it belongs to a port. */
function splitTag(name: string): { rest: string; tag: string | null } {
  const colon = name.indexOf(':', name.lastIndexOf('/') + 1)
  return colon === -1 ? { rest: name, tag: null } : { rest: name.slice(0, colon), tag: name.slice(colon + 1) }
}

/** Docker's rule: the first part is a host if it looks like one. After `oci://` it always is. */
function splitRegistry(name: string, hasScheme: boolean): { registry: string; path: string } {
  const slash = name.indexOf('/')
  const first = slash === -1 ? '' : name.slice(0, slash)
  if (first !== '' && (hasScheme || /[.:]/.test(first) || first === 'localhost')) {
    const registry = first === 'index.docker.io' ? dockerHub : first
    const path = name.slice(slash + 1)
    return { registry, path: registry === dockerHub && !path.includes('/') ? `library/${path}` : path }
  }
  return { registry: dockerHub, path: slash === -1 ? `library/${name}` : name }
}

/** A host that `URL` would write otherwise (`0x7f.1`, `EXAMPLE.com`, `a..b`) is not what it looks like. */
function isHost(text: string): boolean {
  const url = /^[a-z0-9.:[\]_-]{1,270}$/.test(text) ? URL.parse(`https://${text}/`) : null
  if (url === null || url.pathname !== '/' || url.hostname === '' || /\.\.|^\.|\.$/.test(url.hostname)) return false
  return url.host === text || (text === `${url.hostname}:443` && url.port === '')
}

function refuse(text: string, why: string): never {
  throw new FleetError({ code: 'invalid', retry: 'never', message: `not an image reference: "${text}": ${why}` })
}
