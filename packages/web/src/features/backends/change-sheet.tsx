// The frame of a sheet: what is filled in, what would happen, and the button that says what it does. Whatever is refused
// is said here, and nothing of what was filled in is lost.
import { useMutation, type UseQueryResult } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { type ReactNode, useId } from 'react'
import type { NodeView } from '@muster/protocol'
import { Button, buttonClass } from '../../components/button.tsx'
import { Dialog, useClose } from '../../components/dialog.tsx'
import { Check, OneOf, TextArea } from '../../components/field.tsx'
import { Failed } from '../../components/loaded.tsx'
import { useNotices } from '../../components/notices.tsx'
import { Pill, type Tone } from '../../components/state.tsx'
import { formatBytes } from '../../format.ts'
import { type BackendFacts, make, type Targets, type useDryRun, type Wish } from './backend-change.ts'
import {
  buttonText,
  type Fate,
  fateTitle,
  type PlannedNode,
  type Preview,
  previewOf,
  previewSentence,
  servingSentence,
  type WishKind,
} from './preview.pure.ts'

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

const tones: Readonly<Record<Fate, Tone>> = { now: 'work', there: 'good', later: 'wait', skipped: 'idle' }
const fates = ['now', 'later', 'there', 'skipped'] as const

interface PreviewViewProps {
  readonly kind: WishKind
  readonly query: UseQueryResult
  readonly preview: Preview | null
  /** What becomes of what runs. */
  readonly serving: string
  /** Said while nothing can be asked. */
  readonly waitingFor: string
  /** A refusal that the sheet explains itself. */
  readonly isExplained?: boolean
}

function PreviewView({ kind, query, preview, serving, waitingFor, isExplained = false }: PreviewViewProps) {
  return (
    <section
      aria-label="What will happen"
      aria-busy={query.isFetching}
      className="flex min-h-32 shrink-0 flex-col gap-2 rounded-md border bg-paper p-3"
    >
      <h3 className="font-medium">What will happen</h3>
      {query.error !== null && !isExplained ? (
        <Failed title="This can’t be done now." error={query.error} onRetry={() => void query.refetch()} />
      ) : preview === null ? (
        <p className="text-soft">{query.isFetching ? 'Asking …' : waitingFor}</p>
      ) : (
        <>
          <p>{previewSentence(kind, preview)}</p>
          {serving !== '' && <p className="[overflow-wrap:anywhere]">{serving}</p>}
          {fates.map(
            (fate) =>
              preview[fate].length > 0 && <Group key={fate} title={fateTitle(kind, fate)} tone={tones[fate]} nodes={preview[fate]} />,
          )}
        </>
      )}
    </section>
  )
}

function Group({ title, tone, nodes }: { readonly title: string; readonly tone: Tone; readonly nodes: readonly PlannedNode[] }) {
  return (
    <div className="text-[13px]">
      <h4>
        <Pill tone={tone}>{title}</Pill>
      </h4>
      <ul aria-label={title} className="max-h-48 overflow-y-auto pl-4">
        {nodes.map(({ id, name, note, bytes }) => (
          <li key={id} className="flex flex-wrap gap-x-2">
            <span className="[overflow-wrap:anywhere]">{name}</span>
            {note !== '' && <span className="text-soft [overflow-wrap:anywhere]">{note}</span>}
            {bytes > 0 && (
              <span title={`${bytes} bytes`} className="text-soft">
                {formatBytes(bytes)}
              </span>
            )}
          </li>
        ))}
      </ul>
    </div>
  )
}

interface TargetsFieldProps {
  readonly targets: Targets
  readonly onChange: (targets: Targets) => void
  /** Those that can be chosen. */
  readonly nodes: readonly NodeView[]
  /** What `all` means. */
  readonly all: string
  readonly problem: string | null
  /** Labels can't be asked for everywhere. */
  readonly hasLabels: boolean
}

export function TargetsField({ targets, onChange, nodes, all, problem, hasLabels }: TargetsFieldProps) {
  const { by, labels } = targets
  const choices = [
    { value: 'all', label: all },
    { value: 'nodes', label: 'Only on chosen nodes' },
    ...(hasLabels ? [{ value: 'labels', label: 'Only on nodes with labels' } as const] : []),
  ] as const
  return (
    <div className="flex flex-col gap-2">
      <OneOf legend="Where" choices={choices} chosen={by} onChoose={(chosen) => onChange({ ...targets, by: chosen })} />
      {by === 'nodes' && <NodeChoices targets={targets} onChange={onChange} nodes={nodes} problem={problem} />}
      {by === 'labels' && (
        <TextArea
          label="Labels"
          rows={3}
          spellCheck={false}
          placeholder="rack=b2"
          className="font-mono"
          value={labels}
          onChange={(event) => onChange({ ...targets, labels: event.target.value })}
          hint="One on each line, as rack=b2. The same key again: one of its values. * any value, ! none, !x another one."
          error={labels === '' ? null : problem}
        />
      )}
    </div>
  )
}

function NodeChoices({ targets, onChange, nodes, problem }: Pick<TargetsFieldProps, 'targets' | 'onChange' | 'nodes' | 'problem'>) {
  return (
    <fieldset className="flex min-w-0 flex-col gap-1">
      <legend className="sr-only">Chosen nodes</legend>
      <div className="flex max-h-48 flex-col gap-1 overflow-y-auto rounded-md border p-2">
        {nodes.map(({ id, name, status }) => (
          <Check
            key={id}
            label={name}
            {...(status === 'healthy' ? {} : { hint: status })}
            isChecked={targets.nodes.includes(id)}
            onChange={(isChecked) =>
              onChange({ ...targets, nodes: isChecked ? [...targets.nodes, id] : targets.nodes.filter((chosen) => chosen !== id) })
            }
          />
        ))}
      </div>
      {/* Its place is kept. */}
      <p className="min-h-5 text-soft">{problem}</p>
    </fieldset>
  )
}

/** A sheet is open because the address says so. */
export const useCloseSheet = (): (() => void) => useClose('wish', 'backend')

interface WishLinkProps {
  readonly wish: 'install' | 'upgrade' | 'delete'
  /** None: from an address. */
  readonly backend?: string
  /** For those who listen: which backend it is about. */
  readonly label?: string
  readonly children: ReactNode
}

export function WishLink({ wish, backend, label, children }: WishLinkProps) {
  return (
    <Link to="/backends" search={(before) => ({ ...before, wish, backend })} aria-label={label} className={buttonClass()}>
      {children}
    </Link>
  )
}
