// The GPUs of a node: their memory, and the processes that use it.
import { formatBytes, formatFree, type GpuProcess, type NodeView } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { nodeReplicasQuery } from '../../api/queries.ts'
import { Section } from '../../components/page.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'

/** Nothing for a node without GPUs, or whose worker does not list them. */
export function NodeGpus({ node }: { readonly node: NodeView }) {
  const gpus = node.resources.gpus ?? []
  if (gpus.length === 0) return null
  return (
    <Section title="GPUs">
      <Table label="GPUs" columns={['GPU', 'Name', 'Memory', 'Processes']}>
        {gpus.map((gpu) => (
          <Row key={gpu.uuid ?? gpu.index} aria-label={`GPU ${gpu.index}`}>
            <Cell>{gpu.index}</Cell>
            <Cell className="[overflow-wrap:anywhere]">{gpu.name || gpu.vendor}</Cell>
            <Cell>{node.resources.unified_memory ? 'shared with the CPU' : formatFree(gpu.free, gpu.total)}</Cell>
            <Cell className="[overflow-wrap:anywhere]">
              <Processes node={node} processes={gpu.processes} />
            </Cell>
          </Row>
        ))}
      </Table>
    </Section>
  )
}

type ProcessesProps = Readonly<{ node: NodeView; processes: readonly GpuProcess[] | undefined }>

function Processes({ node, processes }: ProcessesProps) {
  const replicas = useQuery(nodeReplicasQuery(node.id)).data ?? []
  if (processes === undefined) return <span className="text-soft">unknown</span>
  if (processes.length === 0) return <span className="text-soft">none</span>
  return (
    <ul>
      {processes.map(({ pid, bytes, name, replica_id: id }) => {
        const model = replicas.find((replica) => replica.id === id)?.model
        return (
          <li key={pid}>
            {formatBytes(bytes)}{' '}
            {model === undefined ? (
              `${name || 'process'} (PID ${pid})`
            ) : (
              <Link to="/models/$name" params={{ name: model }} className="underline">
                {model}
              </Link>
            )}
          </li>
        )
      })}
    </ul>
  )
}
