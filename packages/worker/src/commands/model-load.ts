// nodes.<id>.model.load: a replica of a model is to run here. Answered when it is noted; how it went is told by event.
import { modelLoad } from '@muster/protocol'
import type { ServeCommand } from './command.ts'

export const serveModelLoad: ServeCommand = ({ bus, nodeId, replicas }) =>
  bus.serve(modelLoad, { node: nodeId }, (order) => replicas.load(order))
