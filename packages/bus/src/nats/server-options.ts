// Settings as options of the NATS client: servers and credentials.
import { jwtAuthenticator, usernamePasswordAuthenticator, tokenAuthenticator } from '@nats-io/transport-node'
import type { Authenticator, TlsOptions } from '@nats-io/transport-node'
import type { NatsOptions } from './connect-nats.ts'
import { parseServerUrls } from './server-urls.ts'

export interface ServerOptions {
  readonly servers: string[]
  readonly tls?: TlsOptions
  readonly authenticator?: Authenticator
}

export function serversOf(list: string): ServerOptions {
  const urls = parseServerUrls(list)
  const [first] = urls
  if (first === undefined) throw new Error('a NATS URL is needed')
  return {
    servers: urls.map((url) => `${url.hostname}:${url.port || '4222'}`),
    ...(urls.some((url) => url.protocol === 'tls:') ? { tls: {} } : {}),
    ...(first.username === '' ? {} : { authenticator: urlAuthenticator(first) }),
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
