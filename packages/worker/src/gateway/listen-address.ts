// The address of the gateway, in the form of the setting: `10.0.0.5`, `10.0.0.5:9000`, `:9000`, `[::1]:9000`.
import { isIP } from 'node:net'

/** `host` null: the address of this machine on the route to the controller. Port 0: any free port. */
export type ListenAddress = Readonly<{ host: string | null; port: number }>

export function parseListenAddress(text: string): ListenAddress | null {
  if (isIP(text) === 6) return { host: text, port: 0 }
  const [, bracketed, plain, digits] = /^(?:\[([^\]]+)\]|([^:[\]\s/]*))(?::(\d{1,5}))?$/.exec(text) ?? []
  const host = bracketed ?? plain
  const port = Number(digits ?? 0)
  if (host === undefined || text === '' || port > 65_535 || (bracketed !== undefined && isIP(bracketed) !== 6)) return null
  return { host: host === '' ? null : host, port }
}

export const isWildcard = (host: string): boolean => host === '0.0.0.0' || host === '::'

export const isLoopbackAddress = (address: string): boolean => address === '::1' || address.replace(/^::ffff:/, '').startsWith('127.')

export const httpUrl = (host: string, port: number): string => `http://${isIP(host) === 6 ? `[${host}]` : host}:${port}`
