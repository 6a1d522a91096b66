// All commands and topics of the bus. The golden messages are checked against this list.
import * as backend from './backend.ts'
import type { Command, Topic } from './define.ts'
import * as model from './model.ts'
import * as node from './node.ts'

export const messageCatalogue: Readonly<Record<string, Command | Topic>> = {
  'backend.install': backend.backendInstall,
  'backend.upgrade': backend.backendUpgrade,
  'backend.delete': backend.backendDelete,
  'backend.list': backend.backendList,
  'backend.stop': backend.backendStop,
  'op.status': node.opStatus,
  'op.cancel': node.opCancel,
  'model.load': model.modelLoad,
  'model.unload': model.modelUnload,
  'model.delete': model.modelDelete,
  'models.running': model.modelsRunning,
  stop: node.nodeStop,
  progress: node.progress,
  heartbeat: node.heartbeat,
  events: node.nodeEvents,
}

/** Published by nodes; the others are requests to nodes. */
export const nodeTopics: readonly Topic[] = [node.heartbeat, node.nodeEvents, node.progress]
