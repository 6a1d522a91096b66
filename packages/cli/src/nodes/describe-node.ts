// Pure: one sentence about a node, after something was done to it.
import type { NodeView } from '@muster/protocol'
import { plainText } from '../output/plain-text.ts'

export const describeNode = (node: NodeView): string => plainText(`${node.name} (${node.id}) is ${node.status}: ${node.status_reason}`)
