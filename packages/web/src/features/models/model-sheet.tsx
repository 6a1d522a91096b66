// Before a model is unloaded or deleted: what exactly will happen.
import type { ModelView } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { modelReplicasQuery } from '../../api/queries.ts'
import { ConfirmSheet, Consequences } from '../../components/confirm-sheet.tsx'
import { Loaded } from '../../components/loaded.tsx'
import { unloadConsequences, deleteConsequences } from './consequences.ts'
import { useModelAct } from './use-model-acts.ts'

export interface ModelSheetProps {
  readonly model: ModelView
  readonly act: 'unload' | 'delete'
  readonly onClose: () => void
}

const names = { unload: 'Unload', delete: 'Delete' } as const

export function ModelSheet({ model, act, onClose }: ModelSheetProps) {
  const replicas = useQuery(modelReplicasQuery(model.name))
  const doing = useModelAct(act, { isSheet: true })
  const told = act === 'unload' ? unloadConsequences : deleteConsequences
  const title = `${names[act]} ${model.name}`
  return (
    <ConfirmSheet
      {...{ title, act: title, doing, onClose }}
      look={act === 'delete' ? 'danger' : 'primary'}
      keep="Leave it as it is"
      refused={`${names[act]} was refused.`}
      onConfirm={() => doing.mutate(model.name)}
    >
      <Loaded query={replicas} what="what runs of it">
        {(known) => <Consequences lines={told(model, known)} />}
      </Loaded>
    </ConfirmSheet>
  )
}
