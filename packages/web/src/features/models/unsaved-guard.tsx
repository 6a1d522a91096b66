// Whoever leaves with something unsaved is asked first; also by the browser, when it is the page that goes.
import { useBlocker } from '@tanstack/react-router'
import { ConfirmSheet } from '../../components/confirm-sheet.tsx'

export function UnsavedGuard({ isDirty, what }: { readonly isDirty: boolean; readonly what: string }) {
  const blocker = useBlocker({
    // Drawers and sheets open over what is written; another tab or page takes its place.
    shouldBlockFn: ({ current, next }) => isDirty && (current.pathname !== next.pathname || tabOf(current.search) !== tabOf(next.search)),
    enableBeforeUnload: isDirty,
    withResolver: true,
  })
  if (blocker.status !== 'blocked') return null
  return (
    <ConfirmSheet
      title="Leave without saving?"
      act="Leave, and lose the changes"
      look="danger"
      keep="Stay here"
      onConfirm={blocker.proceed}
      onClose={blocker.reset}
    >
      <p>Your changes of {what} are not saved.</p>
    </ConfirmSheet>
  )
}

const tabOf = (search: unknown): unknown => (typeof search === 'object' && search !== null && 'tab' in search ? search.tab : undefined)
