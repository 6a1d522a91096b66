// A certificate for tests that need https: made on the spot, good for one name and for an hour.
import { generateKeyPairSync, sign } from 'node:crypto'
import { isIPv4 } from 'node:net'

export interface Certificate {
  readonly key: string
  /** Also what a client has to trust. */
  readonly cert: string
}

const der = (tag: number, ...parts: readonly Uint8Array[]): Buffer => {
  const content = Buffer.concat(parts)
  // The shortest form of the length: nats-server refuses others.
  const long = content.length < 256 ? [0x81, content.length] : [0x82, content.length >> 8, content.length & 0xff]
  const bytes = content.length < 128 ? [content.length] : long
  return Buffer.concat([Buffer.from([tag, ...bytes]), content])
}
const sequence = (...parts: readonly Uint8Array[]): Buffer => der(0x30, ...parts)
const hex = (tag: number, digits: string): Buffer => der(tag, Buffer.from(digits, 'hex'))
const utcTime = (at: number): Buffer => der(0x17, Buffer.from(`${new Date(at).toISOString().slice(2, 19).replace(/[-T:]/g, '')}Z`))

const ecdsaWithSha256 = sequence(hex(0x06, '2a8648ce3d040302'))
const subjectAltName = hex(0x06, '551d11')
const hour = 3_600_000

/** Self-signed, for a host name or an IPv4 address. */
export function makeCertificate(host: string): Certificate {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const name = sequence(der(0x31, sequence(hex(0x06, '550403'), der(0x0c, Buffer.from(host)))))
  const alternative = isIPv4(host) ? der(0x87, Buffer.from(host.split('.').map(Number))) : der(0x82, Buffer.from(host))
  const extensions = sequence(sequence(subjectAltName, der(0x04, sequence(alternative))))
  const now = Date.now()
  const body = sequence(
    der(0xa0, hex(0x02, '02')),
    hex(0x02, '01'),
    ecdsaWithSha256,
    name,
    sequence(utcTime(now - hour), utcTime(now + hour)),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, extensions),
  )
  const signature = der(0x03, Buffer.from([0]), sign('sha256', body, privateKey))
  const base64 = sequence(body, ecdsaWithSha256, signature)
    .toString('base64')
    .replace(/(.{64})/g, '$1\n')
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    cert: `-----BEGIN CERTIFICATE-----\n${base64}\n-----END CERTIFICATE-----\n`,
  }
}
