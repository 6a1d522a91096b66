// Settings as options of the NATS client: servers and credentials.
import { isIP } from 'node:net'
import { checkServerIdentity } from 'node:tls'
import { jwtAuthenticator, usernamePasswordAuthenticator, tokenAuthenticator } from '@nats-io/transport-node'
import type { Authenticator, TlsOptions } from '@nats-io/transport-node'
import type { NatsOptions } from './connect-nats.ts'
import type { NatsTls } from './nats-tls.ts'
import { parseServerUrls } from './server-urls.ts'

export interface ServerOptions {
  readonly servers: string[]
  readonly tls?: TlsOptions & Readonly<{ checkServerIdentity?: typeof checkServerIdentity }>
  readonly authenticator?: Authenticator
}

export function serversOf(list: string, tls: NatsTls | null = null): ServerOptions {
  const urls = parseServerUrls(list)
  const [first] = urls
  if (first === undefined) throw new Error('a NATS URL is needed')
  return {
    servers: urls.map((url) => `${url.hostname}:${url.port || '4222'}`),
    ...(tls !== null || urls.some((url) => url.protocol === 'tls:') ? { tls: { ...tlsOptions(tls), ...identityOf(urls) } } : {}),
    ...(first.username === '' ? {} : { authenticator: urlAuthenticator(first) }),
  }
}

const tlsOptions = (tls: NatsTls | null): TlsOptions => ({ ...(tls?.ca === undefined ? {} : { ca: tls.ca }), ...tls?.client })

/**
 * The client library passes no name for a server that is given by its address, and Node then compares the certificate with
 * `localhost`: it has to be for one of the given addresses instead.
 */
function identityOf(urls: readonly URL[]): Pick<NonNullable<ServerOptions['tls']>, 'checkServerIdentity'> {
  const hosts = urls.map(({ hostname }) => hostname.replace(/^\[(.*)\]$/, '$1'))
  const addresses = hosts.filter((host) => isIP(host) !== 0)
  if (addresses.length === 0) return {}
  return {
    checkServerIdentity(name, certificate) {
      const candidates = name === 'localhost' ? [...addresses, ...hosts.filter((host) => host === name)] : [name]
      const problems = candidates.map((candidate) => checkServerIdentity(candidate, certificate))
      return problems.includes(undefined) ? undefined : problems[0]
    },
  }
}

/** Reads the credentials at each connection. */
export function credentialsAuthenticator(credentials: NonNullable<NatsOptions['credentials']>): Authenticator {
  return (nonce) => {
    const { jwt, seed } = typeof credentials === 'function' ? credentials() : credentials
    return jwtAuthenticator(jwt, new TextEncoder().encode(seed))(nonce)
  }
}

/** `user:password@`, or `token@`, as in other NATS clients. */
function urlAuthenticator({ username, password }: URL): Authenticator {
  const user = decodeURIComponent(username)
  return password === '' ? tokenAuthenticator(user) : usernamePasswordAuthenticator(user, decodeURIComponent(password))
}
