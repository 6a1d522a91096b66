// Every subject that a node answers. To add one: write its file, and put it on a list.
import type { Subscription } from '@muster/bus'
import type { NodeType } from '@muster/protocol'
import { serveBackendDelete } from './backend-delete.ts'
import { serveBackendInstall } from './backend-install.ts'
import { serveBackendList } from './backend-list.ts'
import { serveBackendStop } from './backend-stop.ts'
import { serveBackendUpgrade } from './backend-upgrade.ts'
import type { CommandContext, ServeCommand } from './command.ts'
import { serveModelDelete } from './model-delete.ts'
import { serveModelLoad } from './model-load.ts'
import { serveModelUnload } from './model-unload.ts'
import { serveModelsRunning } from './models-running.ts'
import { serveOpCancel } from './op-cancel.ts'
import { serveOpStatus } from './op-status.ts'
import { serveStop } from './stop.ts'

const ofEveryNode: readonly ServeCommand[] = [serveStop]
/** Agent nodes have no backends, and nothing that listens for commands about them. */
const ofBackendNodes: readonly ServeCommand[] = [
  serveBackendInstall,
  serveBackendUpgrade,
  serveBackendDelete,
  serveBackendList,
  serveBackendStop,
  serveModelLoad,
  serveModelUnload,
  serveModelDelete,
  serveModelsRunning,
  serveOpStatus,
  serveOpCancel,
]

export function serveCommands(nodeType: NodeType, context: CommandContext): Subscription[] {
  const served = nodeType === 'agent' ? ofEveryNode : [...ofEveryNode, ...ofBackendNodes]
  return served.map((serve) => serve(context))
}
