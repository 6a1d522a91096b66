// TLS for the connection to NATS: a private certificate authority, and a certificate of the client.
import { checkFile, defineSettings, readCertificates, readPrivateKey, SettingsError, string, type SettingsOf } from '@muster/host'

export interface NatsTls {
  /** Certificates (PEM) to trust instead of those of the system. */
  readonly ca?: string
  readonly client?: Readonly<{ cert: string; key: string }>
}

/** The settings of controllers and workers. */
export const natsTlsSettings = defineSettings({
  natsCa: string({
    flag: 'nats-ca',
    default: '',
    check: checkFile(readCertificates),
    help: "file with the certificates (PEM) that NATS servers are verified with, instead of the system's; the connection then needs TLS",
  }),
  natsCert: string({
    flag: 'nats-cert',
    default: '',
    check: checkFile(readCertificates),
    help: 'file with the client certificate (PEM) for NATS servers that require one; with --nats-key',
  }),
  natsKey: string({ flag: 'nats-key', default: '', check: checkFile(readPrivateKey), help: 'file with the private key of --nats-cert' }),
})
export type NatsTlsSettings = SettingsOf<typeof natsTlsSettings>

/** Reads the files. Null when no setting is given. Throws a SettingsError. */
export function readNatsTls({ natsCa, natsCert, natsKey }: NatsTlsSettings): NatsTls | null {
  if ((natsCert === '') !== (natsKey === '')) throw new SettingsError('--nats-cert and --nats-key need each other: give both, or none')
  if (natsCa === '' && natsCert === '') return null
  return {
    ...(natsCa === '' ? {} : { ca: readCertificates(natsCa).join('\n') }),
    ...(natsCert === '' ? {} : { client: { cert: readCertificates(natsCert).join('\n'), key: readPrivateKey(natsKey) } }),
  }
}
