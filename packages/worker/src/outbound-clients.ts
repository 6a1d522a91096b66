// The clients for downloads from outside the cluster, limited to the sources that the cluster and this machine's operator allow.
import type { Clock, Log } from '@muster/host'
import type { WorkerSettings as ClusterSettings } from '@muster/protocol'
import {
  createFileClient,
  createOciClient,
  createOutbound,
  dockerCredentials,
  noCredentials,
  type FileClient,
  type OciClient,
  type Outbound,
} from '@muster/source'

export interface OutboundClients {
  readonly outbound: Outbound
  readonly oci: OciClient
  readonly files: FileClient
}

export interface OutboundClientsDeps {
  /** The settings of the latest session; null before the first. */
  readonly cluster: () => ClusterSettings | null
  /** Sources that this machine's operator allows in addition. */
  readonly allowSource: readonly string[]
  /** A file like Docker's config.json; empty: none. */
  readonly dockerConfig: string
  readonly clock: Clock
  readonly log: Log
}

/** The clients are created again when the list of allowed sources changes. */
export function createOutboundClients({ cluster, allowSource, dockerConfig, clock, log }: OutboundClientsDeps): () => OutboundClients {
  let made: { readonly key: string; readonly ways: OutboundClients } | null = null
  return () => {
    const allow = [...new Set([...(cluster()?.allow_source ?? []), ...allowSource])]
    const key = allow.join(' ')
    if (made?.key === key) return made.ways
    const outbound = createOutbound({ allow, clock, log })
    const credentials = dockerConfig === '' ? noCredentials : dockerCredentials({ path: dockerConfig, log })
    const oci = createOciClient({ outbound, credentials, clock, log })
    made = { key, ways: { outbound, oci, files: createFileClient({ outbound, clock, log }) } }
    return made.ways
  }
}
