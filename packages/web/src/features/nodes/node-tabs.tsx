// Tabs of a node: replicas, backends, pending operations, details.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { IntentView, NodeView } from '@muster/protocol'
import { nodeBackendsQuery, nodeIntentsQuery, nodeReplicasQuery, upgradesQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { ShortId } from '../../components/copy.tsx'
import { Empty, Loaded } from '../../components/loaded.tsx'
import { Pill, type Tone } from '../../components/state.tsx'
import { Cell, Fact, Facts, Row, Table } from '../../components/table.tsx'
import { When } from '../../components/time.tsx'
import { DamagedPill } from '../backends/installed-list.tsx'
import { ReplicaStateMark } from '../models/model-state.tsx'
import { NodeModelMenu, useNodeModelAction } from '../models/node-model-actions.tsx'
import { describeMachine } from './node-words.pure.ts'

export function NodeReplicas({ node }: { readonly node: NodeView }) {
  const replicas = useQuery(nodeReplicasQuery(node.id))
  const empty = (
    <Empty title={node.node_type === 'agent' ? 'Agents run no models.' : 'No replicas on this node.'}>
      {node.node_type === 'backend' && (
        <Link to="/models" className="underline">
          Go to models
        </Link>
      )}
    </Empty>
  )
  return (
    <>
      <Loaded query={replicas} what="replicas" empty={empty}>
        {(all) => (
          <Table label="Replicas" columns={['Model', 'State', 'In flight', 'Revision', 'Started', 'Logs', '']}>
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
                  <Link
                    to="."
                    search={(before) => ({ ...before, tab: 'logs', model: replica.model })}
                    aria-label={`Logs of ${replica.model}`}
                    className="underline"
                  >
                    Logs
                  </Link>
                </Cell>
                <Cell>{replica.state !== 'exited' && <NodeModelMenu model={replica.model} node={node} on={replica.model} />}</Cell>
              </Row>
            ))}
          </Table>
        )}
      </Loaded>
      <UnloadedModels node={node} />
    </>
  )
}

/** Models that stay off this node until they are loaded here. */
function UnloadedModels({ node }: { readonly node: NodeView }) {
  const load = useNodeModelAction('load')
  const { unloaded_models: models = [] } = node
  if (models.length === 0) return null
  return (
    <section aria-label="Models unloaded on this node" className="mt-4 flex flex-col gap-2">
      <h3 className="font-medium">Unloaded on this node by an administrator</h3>
      <ul className="flex flex-col gap-1">
        {models.map((model) => (
          <li key={model} className="flex items-center gap-2">
            <Link to="/models/$name" params={{ name: model }} className="underline-offset-2 hover:underline">
              {model}
            </Link>
            <Button aria-label={`Load ${model} on this node`} isBusy={load.isPending} onClick={() => load.mutate({ model, node })}>
              Load
            </Button>
          </li>
        ))}
      </ul>
    </section>
  )
}

export function NodeBackends({ node }: { readonly node: NodeView }) {
  const backends = useQuery(nodeBackendsQuery(node.id))
  const upgrades = useQuery(upgradesQuery).data?.upgrades ?? {}
  const empty = (
    <Empty title={node.node_type === 'agent' ? 'Agents have no backends.' : 'No backends installed on this node.'}>
      {node.node_type === 'backend' && <p>Models placed here install the backend they need.</p>}
      <Link to="/backends" className="underline">
        Go to backends
      </Link>
    </Empty>
  )
  return (
    <Loaded query={backends} what="backends" empty={empty}>
      {(all) => (
        <Table label="Backends" columns={['Backend', 'Version', 'Digest', 'Installed', 'Update']}>
          {all.map(({ name, version, digest, damaged, installed_at: at }) => {
            const upgrade = upgrades[name]
            return (
              <Row key={name}>
                <Cell>
                  <Link to="/backends" search={{ q: name }} className="font-medium underline-offset-2 hover:underline">
                    {name}
                  </Link>
                  {damaged === true && <DamagedPill />}
                </Cell>
                <Cell>{version === '' ? '–' : version}</Cell>
                <Cell>{digest === '' ? '–' : <ShortId id={digest} what="digest" />}</Cell>
                <Cell>
                  <When at={at} />
                </Cell>
                <Cell>
                  {upgrade !== undefined && upgrade.available_digest !== digest && (
                    <Pill tone="wait" sign="⇡" hint="A newer build is available">
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

/** The latest intent for each backend, also when it has settled. */
export function NodeIntents({ node }: { readonly node: NodeView }) {
  const intents = useQuery(nodeIntentsQuery(node.id))
  return (
    <Loaded
      query={intents}
      what="pending operations"
      empty={
        <Empty title="No operations for this node yet.">
          <Link to="/backends" className="underline">
            Go to backends
          </Link>
        </Empty>
      }
    >
      {(all) => (
        <Table label="Pending operations" columns={['Change', 'State', 'Attempts', 'Next attempt', 'Message', 'Operation']}>
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
                <Link
                  to="."
                  search={(before) => ({ ...before, op: intent.operation_id })}
                  aria-label={`Open operation for ${intent.backend}`}
                  className="underline"
                >
                  Open
                </Link>
              </Cell>
            </Row>
          ))}
        </Table>
      )}
    </Loaded>
  )
}

export function NodeDetails({ node }: { readonly node: NodeView }) {
  return (
    <Facts>
      <Fact name="ID">
        <ShortId id={node.id} />
      </Fact>
      <Fact name="Type">{node.node_type}</Fact>
      <Fact name="Version">{node.version === '' ? 'unknown' : node.version}</Fact>
      <Fact name="OS / architecture">{[node.os, node.arch].filter(Boolean).join(' / ') || 'unknown'}</Fact>
      <Fact name="Capability">{node.capability}</Fact>
      <Fact name="Machine">{describeMachine(node) || 'unknown'}</Fact>
      <Fact name="GPU">{node.resources.gpu_vendor ?? 'none'}</Fact>
      <Fact name="Public key">
        <ShortId id={node.public_key} what="public key" />
      </Fact>
      <Fact name="Gateway">{node.gateway_url === '' ? 'none' : <span className="font-mono">{node.gateway_url}</span>}</Fact>
      <Fact name="Last seen">{node.last_seen_at === null ? 'never' : <When at={node.last_seen_at} />}</Fact>
      <Fact name="Joined">
        <When at={node.created_at} />
      </Fact>
      <Fact name="Approved">{node.approved_at === null ? 'not yet' : <When at={node.approved_at} />}</Fact>
      <Fact name="Features">{node.features.length === 0 ? 'base features only (old worker)' : node.features.join(', ')}</Fact>
    </Facts>
  )
}
