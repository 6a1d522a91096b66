// nodes.<id>.backend.list: what is installed here.
import { backendList } from '@muster/protocol'
import type { ServeCommand } from './command.ts'

export const serveBackendList: ServeCommand = ({ bus, nodeId, operations }) =>
  bus.serve(backendList, { node: nodeId }, () => operations.inventory())
