// Credentials for registries, from a file like Docker's `config.json`. Each is only sent to its registry.
// Credential helpers are not run: their secrets have to be written into the file.
import { readFile } from 'node:fs/promises'
import { errorCode, Secret, type Log } from '@muster/host'
import { FleetError } from '@muster/protocol'
import { z } from 'zod'

export type Credential =
  | Readonly<{ kind: 'password'; username: string; password: Secret }>
  /** Exchanged for tokens at the registry's token service. */
  | Readonly<{ kind: 'identity'; token: Secret }>

/** Finds the credential for a registry as in a reference: host, or host and port. */
export type CredentialSource = (registry: string) => Promise<Credential | null>

/** Part of the error of a registry that refuses access. */
export const howToLogIn = (registry: string): string =>
  `set --docker-config to a file with a login for ${registry} (for controllers and workers also MUSTER_DOCKER_CONFIG, or --credentials)`

export const noCredentials: CredentialSource = () => Promise.resolve(null)

const Login = z.object({
  auth: z.string().max(65_536).optional(),
  username: z.string().max(4096).optional(),
  password: z.string().max(65_536).optional(),
  identitytoken: z.string().max(65_536).optional(),
})
const ConfigFile = z.object({
  auths: z.record(z.string(), Login).optional(),
  credsStore: z.string().optional(),
  credHelpers: z.record(z.string(), z.string()).optional(),
})

const largestFile = 1024 * 1024

/** The file is read each time, so that a new login takes effect at once. A missing file holds no credentials. */
export function dockerCredentials({ path, log }: { path: string; log: Log }): CredentialSource {
  return async (registry) => {
    const file = await read(path)
    if (file === null) return null
    const login = Object.entries(file.auths ?? {}).find(([key]) => registryOf(key) === registry)?.[1]
    const found = login === undefined ? null : credentialOf(login, { path, registry })
    if (found === null && (file.credsStore !== undefined || file.credHelpers?.[registry] !== undefined))
      log.warn('credential helpers are not supported; log in without one', { registry, path })
    return found
  }
}

async function read(path: string): Promise<z.infer<typeof ConfigFile> | null> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return null
    throw broken(path, `it is not readable (${errorCode(error) ?? 'unknown error'})`)
  }
  if (text.length > largestFile) throw broken(path, `it is larger than ${largestFile} bytes`)
  // The content is not quoted: it may hold a password.
  try {
    return ConfigFile.parse(JSON.parse(text))
  } catch {
    throw broken(path, "it is not like Docker's config.json")
  }
}

/** Docker writes `https://index.docker.io/v1/` for its own and a host for others; old files have URLs. */
function registryOf(key: string): string | null {
  const [, host = '', path = ''] = /^(?:https?:\/\/)?([^/]+)(\/.*)?$/.exec(key.toLowerCase()) ?? []
  // A key with a path is for a part of a registry, and must not be sent for the rest.
  if (!['', '/', '/v1', '/v1/', '/v2', '/v2/'].includes(path)) return null
  return host === 'index.docker.io' || host === 'registry-1.docker.io' ? 'docker.io' : host
}

function credentialOf(login: z.infer<typeof Login>, at: { path: string; registry: string }): Credential | null {
  if (login.identitytoken) return { kind: 'identity', token: new Secret(login.identitytoken) }
  if (login.auth) {
    const decoded = Buffer.from(login.auth, 'base64').toString('utf8')
    const colon = decoded.indexOf(':')
    if (colon < 1) throw broken(at.path, `"auth" of ${at.registry} is not base64 of user:password`)
    return { kind: 'password', username: decoded.slice(0, colon), password: new Secret(decoded.slice(colon + 1).replace(/\0+$/, '')) }
  }
  if (!login.username) return null
  return { kind: 'password', username: login.username, password: new Secret(login.password ?? '') }
}

const broken = (path: string, why: string): FleetError =>
  new FleetError({ code: 'invalid', retry: 'never', message: `the credentials file ${path} is not used: ${why}` })
