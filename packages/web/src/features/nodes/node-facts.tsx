import type { NodeView } from '@muster/protocol'
import { ShortId } from '../../components/copy.tsx'
import { Fact, Facts } from '../../components/facts.tsx'
import { When } from '../../components/time.tsx'
import { sayMachine } from './node-memory.ts'

export function NodeFacts({ node }: { readonly node: NodeView }) {
  return (
    <Facts>
      <Fact name="Id">
        <ShortId id={node.id} />
      </Fact>
      <Fact name="Type">{node.node_type}</Fact>
      <Fact name="Version">{node.version === '' ? 'unknown' : node.version}</Fact>
      <Fact name="System">{[node.os, node.arch].filter(Boolean).join(' / ') || 'unknown'}</Fact>
      <Fact name="Capability">{node.capability}</Fact>
      <Fact name="Machine">{sayMachine(node) || 'unknown'}</Fact>
      <Fact name="GPU">{node.resources.gpu_vendor ?? 'none'}</Fact>
      <Fact name="Key">
        <ShortId id={node.public_key} what="public key" />
      </Fact>
      <Fact name="Gateway">{node.gateway_url === '' ? 'none' : <span className="font-mono">{node.gateway_url}</span>}</Fact>
      <Fact name="Last seen">{node.last_seen_at === null ? 'never' : <When at={node.last_seen_at} />}</Fact>
      <Fact name="Joined">
        <When at={node.created_at} />
      </Fact>
      <Fact name="Approved">{node.approved_at === null ? 'not yet' : <When at={node.approved_at} />}</Fact>
      <Fact name="Can">
        {node.features.length === 0 ? 'what workers could from the beginning (an old worker)' : node.features.join(', ')}
      </Fact>
    </Facts>
  )
}
