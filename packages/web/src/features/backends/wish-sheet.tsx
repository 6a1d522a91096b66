// The frame of a sheet: what is filled in, what would happen, and the button that says what it does. Whatever is refused
// is said here, and nothing of what was filled in is lost.
import { useMutation } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useId, type ReactNode } from 'react'
import { Button } from '../../components/button.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { Failed } from '../../components/loaded.tsx'
import { useNotices } from '../../components/notices.tsx'
import { PreviewView } from './preview-view.tsx'
import { buttonText, previewOf, servingSentence } from './preview.ts'
import { useCloseSheet } from './use-close-sheet.ts'
import type { useDryRun } from './use-dry-run.ts'
import type { BackendFacts } from './use-facts.ts'
import { make, type Wish } from './wish.ts'

export interface WishSheetProps {
  readonly title: string
  /** The backend, as the button calls it. */
  readonly name: string
  readonly kind: Wish['kind']
  readonly wish: Wish | null
  readonly dry: ReturnType<typeof useDryRun>
  readonly facts: BackendFacts
  readonly waitingFor: string
  readonly isExplained?: boolean
  readonly children: ReactNode
}

export function WishSheet({ title, name, kind, wish, dry, facts, waitingFor, isExplained = false, children }: WishSheetProps) {
  const formId = useId()
  const close = useCloseSheet()
  const begin = useBegin()
  const { query, isCurrent } = dry
  const preview = wish === null || query.data === undefined ? null : previewOf(query.data, facts)
  const strategy = wish?.kind === 'backend.upgrade' ? { strategy: wish.body.strategy } : {}
  const text = buttonText(kind, name, isExplained ? null : preview)
  const submit = (): void => {
    if (wish !== null && text !== null && isCurrent && !begin.isPending) begin.mutate({ wish, text })
  }
  return (
    <Dialog
      title={title}
      place="sheet"
      onClose={close}
      footer={
        <>
          <Button onClick={close}>Close</Button>
          <Button
            type="submit"
            form={formId}
            look={kind === 'backend.delete' ? 'danger' : 'primary'}
            disabled={!isCurrent || text === null}
            isBusy={begin.isPending}
          >
            {text ?? 'Nothing to do'}
          </Button>
        </>
      }
    >
      <form
        id={formId}
        className="flex shrink-0 flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault()
          submit()
        }}
      >
        {children}
      </form>
      <PreviewView
        kind={kind}
        query={query}
        preview={isExplained ? null : preview}
        serving={preview === null ? '' : servingSentence({ kind, ...strategy }, preview, facts.usedBy)}
        waitingFor={waitingFor}
        isExplained={isExplained}
      />
      {begin.error !== null && <Failed title="It was not begun." error={begin.error} />}
    </Dialog>
  )
}

/** Makes the wish, says so, and opens the operation in place of the sheet. */
function useBegin() {
  const navigate = useNavigate()
  const tell = useNotices()
  return useMutation({
    mutationFn: ({ wish }: { wish: Wish; text: string }) => make(wish),
    onSuccess: async (id, { text }) => {
      tell('work', `${text}: begun.`)
      await navigate({ to: '.', replace: true, search: (before) => ({ ...before, wish: undefined, backend: undefined, op: id }) })
    },
  })
}
