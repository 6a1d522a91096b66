// nodes.<id>.backend.stop: end the processes of a backend, or of all. This worker starts none yet.
import { backendStop } from '@muster/protocol'
import type { ServeCommand } from './command.ts'

export const serveBackendStop: ServeCommand = ({ bus, nodeId, log }) =>
  bus.subscribe(backendStop, { node: nodeId }, ({ backend = null }) => {
    log.info('told to stop the processes of backends, of which there are none', { backend })
  })
