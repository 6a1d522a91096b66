// Whoever leaves with something unsaved is asked first; also by the browser, when it is the page that goes.
import { useBlocker } from '@tanstack/react-router'
import { Button } from '../../components/button.tsx'
import { Dialog } from '../../components/dialog.tsx'

export function UnsavedGuard({ isDirty, what }: { readonly isDirty: boolean; readonly what: string }) {
  const blocker = useBlocker({
    // Drawers and sheets open over what is written; another tab or page takes its place.
    shouldBlockFn: ({ current, next }) => isDirty && (current.pathname !== next.pathname || tabOf(current.search) !== tabOf(next.search)),
    enableBeforeUnload: isDirty,
    withResolver: true,
  })
  if (blocker.status !== 'blocked') return null
  return (
    <Dialog
      title="Leave without saving?"
      place="sheet"
      onClose={blocker.reset}
      footer={
        <>
          <Button onClick={blocker.reset}>Stay here</Button>
          <Button look="danger" onClick={blocker.proceed}>
            Leave, and lose the changes
          </Button>
        </>
      }
    >
      <p>Your changes of {what} are not saved.</p>
    </Dialog>
  )
}

const tabOf = (search: unknown): unknown => (typeof search === 'object' && search !== null && 'tab' in search ? search.tab : undefined)
