// Behind the gateway of an agent node, which has no models: nothing.
import { Readable } from 'node:stream'
import { FleetError } from '@muster/protocol'
import type { RouteDeps } from '../src/gateway/gateway.ts'

export const nothingBehind: Pick<RouteDeps, 'replicas' | 'files' | 'openLog'> = {
  replicas: { admit: () => 'gone' },
  files: {
    size: async () => null,
    open: async () => null,
    receive: () => Promise.reject(new FleetError({ code: 'invalid', retry: 'never', message: 'this node keeps no model files' })),
  },
  openLog: () => Readable.from([]),
}
