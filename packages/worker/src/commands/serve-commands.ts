// Every subject that a node answers. To add one: write its file, and put it on a list.
import type { Subscription } from '@muster/bus'
import type { NodeType } from '@muster/protocol'
import { serveBackendList } from './backend-list.ts'
import type { CommandContext, ServeCommand } from './command.ts'
import { serveStop } from './stop.ts'

const ofEveryNode: readonly ServeCommand[] = [serveStop]
/** Agent nodes have no backends, and nothing that listens for commands about them. */
const ofBackendNodes: readonly ServeCommand[] = [serveBackendList]

export function serveCommands(nodeType: NodeType, context: CommandContext): Subscription[] {
  const served = nodeType === 'agent' ? ofEveryNode : [...ofEveryNode, ...ofBackendNodes]
  return served.map((serve) => serve(context))
}
