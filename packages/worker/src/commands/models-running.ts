// nodes.<id>.models.running: the replicas that are here.
import { modelsRunning } from '@muster/protocol'
import type { ServeCommand } from './command.ts'

const most = 4096

export const serveModelsRunning: ServeCommand = ({ bus, nodeId, replicas }) =>
  bus.serve(modelsRunning, { node: nodeId }, () => ({
    replicas: replicas
      .running()
      .slice(0, most)
      .map(({ replicaId, model, revision, state, inFlight }) => ({ replica_id: replicaId, model, revision, state, in_flight: inFlight })),
  }))
