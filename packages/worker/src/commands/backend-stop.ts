// nodes.<id>.backend.stop: end the processes of a backend, or of all.
import { backendStop } from '@muster/protocol'
import type { ServeCommand } from './command.ts'

export const serveBackendStop: ServeCommand = ({ bus, nodeId, replicas, log }) =>
  bus.subscribe(backendStop, { node: nodeId }, ({ backend = null, force }) => {
    log.info('told to stop the processes of backends', { backend, processes: replicas.running().length })
    replicas
      .stopBackend(backend, { force: force === true })
      .catch((error: unknown) => log.error('the processes of a backend were not stopped', { backend, error }))
  })
