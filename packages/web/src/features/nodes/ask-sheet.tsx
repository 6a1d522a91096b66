// Before a node is drained or removed: what exactly will happen.
import { nodeRoutes, type NodeView } from '@muster/protocol'
import { useMutation, useQuery } from '@tanstack/react-query'
import { call } from '../../api/client.ts'
import { nodeReplicasQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { Failed, Loaded } from '../../components/loaded.tsx'
import { useNotices } from '../../components/notices.tsx'
import { whatDrainDoes, whatRemovalDoes } from './what-happens.ts'

export interface AskSheetProps {
  readonly node: NodeView
  readonly what: 'drain' | 'remove'
  readonly onClose: () => void
  /** It is done; `onClose` unless told. */
  readonly onDone?: () => void
}

export function AskSheet({ node, what, onClose, onDone = onClose }: AskSheetProps) {
  const tell = useNotices()
  const replicas = useQuery(nodeReplicasQuery(node.id))
  const change = useMutation({
    mutationFn: () => call(what === 'drain' ? nodeRoutes.drain : nodeRoutes.remove, { params: { id: node.id } }),
    onSuccess: () => {
      tell('idle', what === 'drain' ? `${node.name} is draining.` : `${node.name} was removed.`)
      onDone()
    },
  })
  const says = what === 'drain' ? whatDrainDoes : whatRemovalDoes
  const verb = what === 'drain' ? 'Drain' : 'Remove'
  return (
    <Dialog
      title={`${verb} ${node.name}?`}
      place="sheet"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Leave it as it is</Button>
          <Button
            look={what === 'drain' ? 'primary' : 'danger'}
            isBusy={change.isPending}
            onClick={() => change.mutate()}
            className="max-w-full whitespace-normal!"
          >
            <span className="max-w-80 truncate">
              {verb} {node.name}
            </span>
          </Button>
        </>
      }
    >
      <Loaded query={replicas} what="what runs there">
        {(known) => (
          <ul className="flex list-disc flex-col gap-2 pl-5 [overflow-wrap:anywhere]">
            {says(node, known).map((sentence) => (
              <li key={sentence}>{sentence}</li>
            ))}
          </ul>
        )}
      </Loaded>
      {change.error !== null && <Failed title={`Can’t ${what} it.`} error={change.error} />}
    </Dialog>
  )
}

export const isAsked = (what: string | undefined): what is AskSheetProps['what'] => what === 'drain' || what === 'remove'
