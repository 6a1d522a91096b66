// nodes.<id>.stop: shut this worker down.
import { nodeStop } from '@muster/protocol'
import type { ServeCommand } from './command.ts'

export const serveStop: ServeCommand = ({ bus, nodeId, requestStop }) =>
  bus.subscribe(nodeStop, { node: nodeId }, () => requestStop('a controller told this worker to stop'))
