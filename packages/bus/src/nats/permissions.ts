// Who may say and hear what on NATS, made from the catalogue of conversations. Pure.
// Answers need no grant of their own: a node may answer what it was asked (`allow_responses`), and each
// party hears answers only below its own inbox. Nobody hears everything, so nobody can read or forge
// what another was asked or answered.
import { messageCatalogue, nodeTopics, type NodeId } from '@muster/protocol'

export interface Permissions {
  readonly publish: readonly string[]
  readonly subscribe: readonly string[]
}

const isSpokenByNodes = (subject: string): boolean => nodeTopics.some((topic) => topic.subject === subject)
const subjects = Object.values(messageCatalogue).map((conversation) => conversation.subject)
const [fromNodes, toNodes] = [subjects.filter(isSpokenByNodes), subjects.filter((subject) => !isSpokenByNodes(subject))]

/** `nodes.{node}.…` for one node, or any; every other parameter is any. */
const forNode = (subject: string, node: NodeId | '*'): string => subject.replace('{node}', node).replaceAll(/\{\w+\}/g, '*')

export function controllerPermissions(inboxPrefix: string): Permissions {
  return {
    publish: toNodes.map((subject) => forNode(subject, '*')),
    subscribe: [...fromNodes.map((subject) => forNode(subject, '*')), `${inboxPrefix}.>`],
  }
}

export function nodePermissions(node: NodeId, inboxPrefix: string): Permissions {
  return {
    publish: fromNodes.map((subject) => forNode(subject, node)),
    subscribe: [...toNodes.map((subject) => forNode(subject, node)), `${inboxPrefix}.>`],
  }
}
