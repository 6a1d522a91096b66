import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { IntentView, NodeView } from '@muster/protocol'
import { nodeBackendsQuery, nodeIntentsQuery, nodeReplicasQuery, upgradesQuery } from '../../api/queries.ts'
import { ShortId } from '../../components/copy.tsx'
import { Empty, Loaded } from '../../components/loaded.tsx'
import { Pill, type Tone } from '../../components/state.tsx'
import { Cell, Fact, Facts, Row, Table } from '../../components/table.tsx'
import { When } from '../../components/time.tsx'
import { ReplicaStateMark } from '../models/model-state.tsx'
import { sayMachine } from './node-words.pure.ts'

export function NodeReplicas({ node }: { readonly node: NodeView }) {
  const replicas = useQuery(nodeReplicasQuery(node.id))
  const empty = (
    <Empty title={node.node_type === 'agent' ? 'An agent runs no models.' : 'No model runs here.'}>
      {node.node_type === 'backend' && (
        <Link to="/models" className="underline">
          Load one: models
        </Link>
      )}
    </Empty>
  )
  return (
    <Loaded query={replicas} what="its replicas" empty={empty}>
      {(all) => (
        <Table label="Replicas" columns={['Model', 'State', 'In flight', 'Revision', 'Since', 'Logs']}>
          {all.map((replica) => (
            <Row key={replica.id}>
              <Cell>
                <Link to="/models/$name" params={{ name: replica.model }} className="font-medium underline-offset-2 hover:underline">
                  {replica.model}
                </Link>
              </Cell>
              <Cell>
                <ReplicaStateMark replica={replica} />
              </Cell>
              <Cell>{replica.in_flight}</Cell>
              <Cell>
                <ShortId id={replica.revision} what="revision" />
              </Cell>
              <Cell>
                <When at={replica.started_at} />
              </Cell>
              <Cell>
                <Link to="." search={(before) => ({ ...before, tab: 'logs', model: replica.model })} className="underline">
                  Logs
                </Link>
              </Cell>
            </Row>
          ))}
        </Table>
      )}
    </Loaded>
  )
}

export function NodeBackends({ node }: { readonly node: NodeView }) {
  const backends = useQuery(nodeBackendsQuery(node.id))
  const upgrades = useQuery(upgradesQuery).data?.upgrades ?? {}
  const empty = (
    <Empty title={node.node_type === 'agent' ? 'An agent has no backends.' : 'No backend is installed here.'}>
      {node.node_type === 'backend' && <p>A model that is placed here brings its own.</p>}
      <Link to="/backends" className="underline">
        Backends
      </Link>
    </Empty>
  )
  return (
    <Loaded query={backends} what="its backends" empty={empty}>
      {(all) => (
        <Table label="Backends" columns={['Backend', 'Version', 'Digest', 'Installed', 'Update']}>
          {all.map(({ name, version, digest, installed_at: at }) => {
            const upgrade = upgrades[name]
            return (
              <Row key={name}>
                <Cell>
                  <Link to="/backends" search={{ q: name }} className="font-medium underline-offset-2 hover:underline">
                    {name}
                  </Link>
                </Cell>
                <Cell>{version === '' ? '–' : version}</Cell>
                <Cell>{digest === '' ? '–' : <ShortId id={digest} what="digest" />}</Cell>
                <Cell>
                  <When at={at} />
                </Cell>
                <Cell>
                  {upgrade !== undefined && upgrade.available_digest !== digest && (
                    <Pill tone="wait" sign="⇡" hint="a newer build is offered">
                      {upgrade.available_version === '' ? 'update available' : `${upgrade.available_version} available`}
                    </Pill>
                  )}
                </Cell>
              </Row>
            )
          })}
        </Table>
      )}
    </Loaded>
  )
}

const tones: Readonly<Record<IntentView['state'], Tone>> = {
  waiting: 'wait',
  sending: 'work',
  working: 'work',
  applied: 'good',
  failed: 'bad',
  dead: 'bad',
  cancelled: 'idle',
}

/** The last wish about each backend, also one that has come to its end. */
export function NodeWishes({ node }: { readonly node: NodeView }) {
  const intents = useQuery(nodeIntentsQuery(node.id))
  return (
    <Loaded
      query={intents}
      what="what was wished of it"
      empty={
        <Empty title="Nothing was wished of its backends yet.">
          <Link to="/backends" className="underline">
            Install one: backends
          </Link>
        </Empty>
      }
    >
      {(all) => (
        <Table label="Wishes" columns={['Wish', 'State', 'Attempts', 'Next try', 'Why', 'Operation']}>
          {all.map((intent) => (
            <Row key={intent.backend}>
              <Cell className="whitespace-nowrap">
                {intent.kind} <span className="font-medium">{intent.backend}</span>
              </Cell>
              <Cell>
                <Pill tone={tones[intent.state]}>{intent.state}</Pill>
              </Cell>
              <Cell>{intent.attempts}</Cell>
              <Cell>{intent.next_retry_at === null ? '–' : <When at={intent.next_retry_at} />}</Cell>
              <Cell className="min-w-48 [overflow-wrap:anywhere]">{intent.failure?.message ?? intent.message}</Cell>
              <Cell>
                <Link to="." search={(before) => ({ ...before, op: intent.operation_id })} className="underline">
                  Follow
                </Link>
              </Cell>
            </Row>
          ))}
        </Table>
      )}
    </Loaded>
  )
}

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
