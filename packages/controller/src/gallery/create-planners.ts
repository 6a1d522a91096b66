// The ways out of a controller, and what is planned with them.
import type { Clock, Log } from '@muster/host'
import { createOciClient, createOutbound, dockerCredentials, noCredentials } from '@muster/source'
import type { BuiltinBlobs } from '../builtin/builtin-blobs.ts'
import type { ControllerSettings } from '../settings.ts'
import type { Store } from '../store/store.ts'
import { createCatalogue } from './catalogue.ts'
import { createPlanInstall } from './plan-install.ts'
import { createPlanUpgrade } from './plan-upgrade.ts'
import { createResolveSource } from './resolve-source.ts'

export interface PlannersDeps {
  readonly settings: Pick<ControllerSettings, 'allowSource' | 'dockerConfig'>
  readonly store: Pick<Store, 'galleries'>
  readonly builtin: Promise<BuiltinBlobs>
  readonly stopping: AbortSignal
  readonly clock: Clock
  readonly log: Log
}

export function createPlanners({ settings, store, builtin, stopping, clock, log }: PlannersDeps) {
  const outbound = createOutbound({ allow: [...settings.allowSource], clock, log })
  const { dockerConfig } = settings
  const credentials = dockerConfig === '' ? noCredentials : dockerCredentials({ path: dockerConfig, log })
  const oci = createOciClient({ outbound, credentials, clock, log })
  const catalogue = createCatalogue({ galleries: store.galleries, builtin, outbound, stopping, clock })
  const resolve = createResolveSource({ outbound, oci, builtin, clock })
  const arrivalOf = async (backend: string): Promise<Promise<void> | null> => {
    const blobs = await builtin
    return blobs.missing().includes(backend) ? blobs.completed : null
  }
  return {
    outbound,
    catalogue,
    resolve,
    planInstall: createPlanInstall({ catalogue, resolve, arrivalOf }),
    /** It comes with Muster, and is still being assembled. */
    isComing: async (backend: string) => (await builtin).missing().includes(backend),
    planUpgrade: createPlanUpgrade({ catalogue, resolve }),
  }
}
