// The list of models with state, replicas, nodes and actions.
import type { ModelView, NodeView } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { nodesQuery } from '../../api/queries.ts'
import { Button, buttonClass } from '../../components/button.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { ModelStateMark, useLoadProgress } from './model-state.tsx'
import { replicasOf } from './model-words.pure.ts'
import { useModelAction } from './model-actions.tsx'

export function ModelsTable({ models }: { readonly models: readonly ModelView[] }) {
  const nodes = useQuery(nodesQuery).data ?? []
  return (
    <Table label="Models" columns={['Name', 'State', 'Replicas', 'Backend', 'Nodes', '']}>
      {models.map((model) => (
        <ModelRow key={model.name} model={model} nodes={nodes.filter((node) => node.models.includes(model.name))} />
      ))}
    </Table>
  )
}

function ModelRow({ model, nodes }: { readonly model: ModelView; readonly nodes: readonly NodeView[] }) {
  return (
    <Row aria-label={model.name}>
      <Cell className="max-w-72 min-w-36">
        <Link to="/models/$name" params={{ name: model.name }} className="font-medium [overflow-wrap:anywhere] hover:underline">
          {model.name}
        </Link>
      </Cell>
      <Cell>
        <ModelStateMark model={model} progress={useLoadProgress(model)} />
      </Cell>
      <Cell className="whitespace-nowrap">{replicasOf(model)}</Cell>
      <Cell className="max-w-48 [overflow-wrap:anywhere]">
        <Link to="/backends" search={{ q: model.backend }} className="hover:underline">
          {model.backend}
        </Link>
      </Cell>
      <Cell className="max-w-64">
        <NodeChips nodes={nodes} />
      </Cell>
      <Cell>
        <RowActions model={model} />
      </Cell>
    </Row>
  )
}

const maxChips = 6

function NodeChips({ nodes }: { readonly nodes: readonly NodeView[] }) {
  return (
    <ul className="flex flex-wrap gap-1">
      {nodes.slice(0, maxChips).map(({ id, name }) => (
        <li key={id} className="max-w-full">
          <Link to="/nodes/$id" params={{ id }} title={name} className="block max-w-40 truncate rounded-md border px-1.5 hover:bg-sunken">
            {name}
          </Link>
        </li>
      ))}
      {nodes.length > maxChips && <li className="text-soft">and {nodes.length - maxChips} more</li>}
    </ul>
  )
}

function RowActions({ model }: { readonly model: ModelView }) {
  return (
    <div className="flex justify-end gap-1">
      <LoadOrUnload model={model} />
      <Link to="/playground" search={{ model: model.name }} aria-label={`Open ${model.name} in the playground`} className={buttonClass()}>
        Playground
      </Link>
      <SheetLink model={model} act="delete" />
    </div>
  )
}

/** Both buttons have the same width, so that nothing moves when one replaces the other. */
function LoadOrUnload({ model }: { readonly model: ModelView }) {
  const load = useModelAction('load')
  if (model.state !== 'unloaded' && model.state !== 'failed') return <SheetLink model={model} act="unload" />
  return (
    <Button className="w-18" aria-label={`Load ${model.name}`} isBusy={load.isPending} onClick={() => load.mutate(model.name)}>
      Load
    </Button>
  )
}

function SheetLink({ model, act }: { readonly model: ModelView; readonly act: 'unload' | 'delete' }) {
  const name = act === 'unload' ? 'Unload' : 'Delete'
  return (
    <Link
      to="/models"
      search={(before) => ({ ...before, act, model: model.name })}
      aria-label={`${name} ${model.name}`}
      className={`w-18 ${buttonClass(act === 'delete' ? 'danger' : 'plain')}`}
    >
      {name}
    </Link>
  )
}
