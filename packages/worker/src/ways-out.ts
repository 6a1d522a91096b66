// How things from elsewhere come to this machine, as the cluster's settings and this machine's operator allow it now.
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

export interface WaysOut {
  readonly outbound: Outbound
  readonly oci: OciClient
  readonly files: FileClient
}

export interface WaysOutDeps {
  /** What the last session said; null before the first. */
  readonly cluster: () => ClusterSettings | null
  /** What this machine's operator allows beside. */
  readonly allowSource: readonly string[]
  /** A file like Docker's config.json; empty: none. */
  readonly dockerConfig: string
  readonly clock: Clock
  readonly log: Log
}

/** Made anew when the list of allowed sources changes, and then only. */
export function createWaysOut({ cluster, allowSource, dockerConfig, clock, log }: WaysOutDeps): () => WaysOut {
  let made: { readonly key: string; readonly ways: WaysOut } | null = null
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
