// Before a model is unloaded or deleted: what exactly will happen.
import type { ModelView } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { modelReplicasQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { Failed, Loaded } from '../../components/loaded.tsx'
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
    <Dialog
      title={title}
      place="sheet"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Leave it as it is</Button>
          <Button look={act === 'delete' ? 'danger' : 'primary'} isBusy={doing.isPending} onClick={() => doing.mutate(model.name)}>
            <span className="max-w-72 truncate">{title}</span>
          </Button>
        </>
      }
    >
      <Loaded query={replicas} what="what runs of it">
        {(known) => (
          <ul className="flex list-disc flex-col gap-1.5 pl-5">
            {told(model, known).map((line) => (
              <li key={line} className="[overflow-wrap:anywhere]">
                {line}
              </li>
            ))}
          </ul>
        )}
      </Loaded>
      {doing.error !== null && <Failed title={`${names[act]} was refused.`} error={doing.error} />}
    </Dialog>
  )
}
