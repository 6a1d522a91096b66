// The URL under which this controller says it can be reached. Pure.
import type { NetworkInterfaceInfo } from 'node:os'

type Interfaces = Readonly<Record<string, readonly NetworkInterfaceInfo[] | undefined>>

const inUrl = (address: string): string => (address.includes(':') ? `[${address}]` : address)

export function ownUrl(listen: { host: string; port: number; publicUrl: string }, interfaces: Interfaces): string {
  if (listen.publicUrl !== '') return listen.publicUrl.replace(/\/+$/, '')
  if (listen.host !== '0.0.0.0' && listen.host !== '::') return `http://${inUrl(listen.host)}:${listen.port}`
  const outward = Object.values(interfaces)
    .flatMap((addresses) => addresses ?? [])
    .find((address) => !address.internal && address.family === 'IPv4')
  return `http://${inUrl(outward?.address ?? '127.0.0.1')}:${listen.port}`
}
