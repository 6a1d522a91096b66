// The sheet of a backend change: a form, the preview by a dry run, and a button that names the change. An error is shown in
// the sheet and keeps the input.
import { useMutation, type UseQueryResult } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { type ReactNode, useId } from 'react'
import { formatBytes, type NodeView } from '@muster/protocol'
import { Button, buttonClass } from '../../components/button.tsx'
import { Dialog, useClose } from '../../components/dialog.tsx'
import { Form, Check, RadioGroup, TextArea } from '../../components/field.tsx'
import { Failed } from '../../components/loaded.tsx'
import { useNotices } from '../../components/notices.tsx'
import { Pill, type Tone } from '../../components/state.tsx'
import { type BackendFacts, submitChange, type Targets, type useDryRun, type BackendChange } from './backend-change.ts'
import {
  buttonText,
  type Outcome,
  outcomeTitle,
  type PlannedNode,
  type Preview,
  previewOf,
  previewSentence,
  servingSentence,
  type ChangeKind,
} from './preview.pure.ts'

export interface ChangeSheetProps {
  readonly title: string
  /** The backend's name in the button. */
  readonly name: string
  readonly kind: BackendChange['kind']
  readonly change: BackendChange | null
  readonly dryRun: ReturnType<typeof useDryRun>
  readonly facts: BackendFacts
  readonly prompt: string
  readonly isExplained?: boolean
  readonly children: ReactNode
}

export function ChangeSheet({ title, name, kind, change, dryRun, facts, prompt, isExplained = false, children }: ChangeSheetProps) {
  const formId = useId()
  const close = useCloseSheet()
  const submission = useSubmission()
  const { query, isCurrent } = dryRun
  const preview = change === null || query.data === undefined ? null : previewOf(query.data, facts)
  const strategy = change?.kind === 'backend.upgrade' ? { strategy: change.body.strategy } : {}
  const text = buttonText(kind, name, isExplained ? null : preview)
  const submit = (): void => {
    if (change !== null && text !== null && isCurrent && !submission.isPending) submission.mutate({ change, text })
  }
  return (
    <Dialog
      title={title}
      place="sheet"
      onClose={close}
      footer={
        <>
          <Button onClick={close}>Cancel</Button>
          <Button
            type="submit"
            form={formId}
            look={kind === 'backend.delete' ? 'danger' : 'primary'}
            disabled={!isCurrent || text === null}
            isBusy={submission.isPending}
          >
            {text ?? 'Nothing to do'}
          </Button>
        </>
      }
    >
      <Form id={formId} className="flex shrink-0 flex-col gap-4" onSubmit={submit}>
        {children}
      </Form>
      <PreviewView
        kind={kind}
        query={query}
        preview={isExplained ? null : preview}
        serving={preview === null ? '' : servingSentence({ kind, ...strategy }, preview, facts.replicas)}
        prompt={prompt}
        isExplained={isExplained}
      />
      {submission.error !== null && <Failed title="Could not start" error={submission.error} />}
    </Dialog>
  )
}

/** Submits the change and opens the operation's drawer in place of the sheet. */
function useSubmission() {
  const navigate = useNavigate()
  const notify = useNotices()
  return useMutation({
    mutationFn: ({ change }: { change: BackendChange; text: string }) => submitChange(change),
    onSuccess: async (id, { text }) => {
      notify('work', `Started: ${text}`)
      await navigate({ to: '.', replace: true, search: (before) => ({ ...before, act: undefined, backend: undefined, op: id }) })
    },
  })
}

const tones: Readonly<Record<Outcome, Tone>> = { now: 'work', unchanged: 'good', later: 'wait', skipped: 'idle' }
const outcomes = ['now', 'later', 'unchanged', 'skipped'] as const

interface PreviewViewProps {
  readonly kind: ChangeKind
  readonly query: UseQueryResult
  readonly preview: Preview | null
  /** Effect on running models. */
  readonly serving: string
  /** Shown while the input is incomplete. */
  readonly prompt: string
  /** The sheet itself explains the error. */
  readonly isExplained?: boolean
}

function PreviewView({ kind, query, preview, serving, prompt, isExplained = false }: PreviewViewProps) {
  return (
    <section
      aria-label="Preview"
      aria-busy={query.isFetching}
      className="flex min-h-32 shrink-0 flex-col gap-2 rounded-md border bg-paper p-3"
    >
      <h3 className="font-medium">Preview</h3>
      {query.error !== null && !isExplained ? (
        <Failed title="Preview failed" error={query.error} onRetry={() => void query.refetch()} />
      ) : preview === null ? (
        <p className="text-soft">{query.isFetching ? 'Loading preview…' : prompt}</p>
      ) : (
        <>
          <p>{previewSentence(kind, preview)}</p>
          {serving !== '' && <p className="[overflow-wrap:anywhere]">{serving}</p>}
          {outcomes.map(
            (outcome) =>
              preview[outcome].length > 0 && (
                <Group key={outcome} title={outcomeTitle(kind, outcome)} tone={tones[outcome]} nodes={preview[outcome]} />
              ),
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
  /** Nodes to select from. */
  readonly nodes: readonly NodeView[]
  /** Label of the option for all nodes. */
  readonly allLabel: string
  readonly problem: string | null
  /** Not every change can select nodes by label. */
  readonly hasLabels: boolean
}

export function TargetsField({ targets, onChange, nodes, allLabel, problem, hasLabels }: TargetsFieldProps) {
  const { by, labels } = targets
  const choices = [
    { value: 'all', label: allLabel },
    { value: 'nodes', label: 'Selected nodes' },
    ...(hasLabels ? [{ value: 'labels', label: 'Nodes with labels' } as const] : []),
  ] as const
  return (
    <div className="flex flex-col gap-2">
      <RadioGroup legend="Nodes" choices={choices} chosen={by} onSelect={(chosen) => onChange({ ...targets, by: chosen })} />
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
          hint="One per line, such as rack=b2. Repeat a key to allow several values. Use * for any value, ! for a missing label, !x for any value except x."
          error={labels === '' ? null : problem}
        />
      )}
    </div>
  )
}

function NodeChoices({ targets, onChange, nodes, problem }: Pick<TargetsFieldProps, 'targets' | 'onChange' | 'nodes' | 'problem'>) {
  return (
    <fieldset className="flex min-w-0 flex-col gap-1">
      <legend className="sr-only">Node selection</legend>
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
      {/* Keeps its height while empty. */}
      <p className="min-h-5 text-soft">{problem}</p>
    </fieldset>
  )
}

export const useCloseSheet = (): (() => void) => useClose('act', 'backend')

interface ChangeLinkProps {
  readonly act: 'install' | 'upgrade' | 'delete'
  /** Undefined to install from a URI. */
  readonly backend?: string
  /** Accessible name, which includes the backend. */
  readonly label?: string
  readonly children: ReactNode
}

/** Opens a sheet. It is a link, so that it can be opened in a new tab and shared. */
export function ChangeLink({ act, backend, label, children }: ChangeLinkProps) {
  return (
    <Link to="/backends" search={(before) => ({ ...before, act, backend })} aria-label={label} className={buttonClass()}>
      {children}
    </Link>
  )
}
