// The clients for downloads from outside the cluster, limited to the sources that the cluster and this machine's operator allow.
import type { Clock, Log } from '@muster/host'
import type { WorkerSettings as ClusterSettings } from '@muster/protocol'
import {
  createFileClient,
  createSourceClients,
  openSourceAccess,
  type FileClient,
  type OciClient,
  type Outbound,
  type SourceSettings,
} from '@muster/source'

export interface OutboundClients {
  readonly outbound: Outbound
  readonly oci: OciClient
  readonly files: FileClient
}

export interface OutboundClientsDeps {
  /** The settings of the latest session; null before the first. */
  readonly cluster: () => ClusterSettings | null
  /** With the sources that this machine's operator allows in addition. */
  readonly settings: SourceSettings & Readonly<{ allowSource: readonly string[] }>
  readonly env: Readonly<Record<string, string | undefined>>
  readonly clock: Clock
  readonly log: Log
}

/** The clients are created again when the list of allowed sources changes. */
export function createOutboundClients({ cluster, settings, env, clock, log }: OutboundClientsDeps): () => OutboundClients {
  const access = openSourceAccess(settings, { env, log })
  let made: { readonly key: string; readonly ways: OutboundClients } | null = null
  return () => {
    const allow = [...new Set([...(cluster()?.allow_source ?? []), ...settings.allowSource])]
    const key = allow.join(' ')
    if (made?.key === key) return made.ways
    const { outbound, oci } = createSourceClients({ allow, access, clock, log })
    made = { key, ways: { outbound, oci, files: createFileClient({ outbound, clock, log }) } }
    return made.ways
  }
}
