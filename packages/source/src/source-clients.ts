// The clients for sources outside of the cluster, and the settings that controllers and workers have for them.
import { checkFile, type Clock, defineSettings, type Log, readCertificates, type SettingsOf, string } from '@muster/host'
import { createUrlCredentials, noUrlCredentials, readCredentialsFile, type UrlCredentials } from './credentials/url-credentials.ts'
import { createOciClient, type OciClient } from './oci/create-oci-client.ts'
import { type CredentialSource, dockerCredentials, noCredentials } from './oci/credentials.ts'
import { createOutbound } from './outbound/create-outbound.ts'
import type { Outbound } from './outbound/outbound.ts'

export const sourceSettings = defineSettings({
  dockerConfig: string({ flag: 'docker-config', default: '', help: "a file like Docker's config.json with credentials for registries" }),
  credentials: string({
    flag: 'credentials',
    default: '',
    check: checkFile(readCredentialsFile),
    help: 'a YAML file with logins by URL prefix, for private galleries, registries, archives and model files; read again when it changes',
  }),
  sourceCa: string({
    flag: 'source-ca',
    default: '',
    check: checkFile(readCertificates),
    help: "file with certificates (PEM) to trust for galleries, registries, archives and model files, beside the system's",
  }),
})
export type SourceSettings = SettingsOf<typeof sourceSettings>

/** The logins and certificates that the settings name. */
export type SourceAccess = Readonly<{ byUrl: UrlCredentials; ofDocker: CredentialSource; ca: readonly string[] }>

export interface SourceAccessDeps {
  /** For secrets that the credentials file takes from the environment. */
  readonly env: Readonly<Record<string, string | undefined>>
  readonly log: Log
}

export function openSourceAccess(
  { dockerConfig, credentials: path, sourceCa }: SourceSettings,
  { env, log }: SourceAccessDeps,
): SourceAccess {
  return {
    byUrl: path === '' ? noUrlCredentials : createUrlCredentials({ path, env, log }),
    ofDocker: dockerConfig === '' ? noCredentials : dockerCredentials({ path: dockerConfig, log }),
    ca: sourceCa === '' ? [] : readCertificates(sourceCa),
  }
}

export interface SourceClientsDeps {
  /** HOST[:PORT] or CIDR each. */
  readonly allow: readonly string[]
  readonly access: SourceAccess
  readonly clock: Clock
  readonly log: Log
}

export function createSourceClients({ allow, access, clock, log }: SourceClientsDeps): { outbound: Outbound; oci: OciClient } {
  const { byUrl, ofDocker, ca } = access
  const outbound = createOutbound({ allow, byUrl, clock, log, ...(ca.length === 0 ? {} : { ca }) })
  return { outbound, oci: createOciClient({ outbound, credentials: ofDocker, byUrl, clock, log }) }
}
