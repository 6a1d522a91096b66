// Upgrades one backend, or all that have updates.
import { useMutation, useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { BackendName, backendRoutes, type BackendView, Rollout, type Strategy, type UpgradeView } from '@muster/protocol'
import { call } from '../../api/client.ts'
import { backendsQuery, modelsQuery, upgradesQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { Check, RadioGroup, TextField } from '../../components/field.tsx'
import { Failed, Loaded } from '../../components/loaded.tsx'
import { useNotices } from '../../components/notices.tsx'
import { listNames, plural, sentence } from '../../format.ts'
import { useDryRun, useBackendFacts, useTargets, type BackendChange } from './backend-change.ts'
import { driftWords, isAway, isNewer, type Upgrades, upgradeWords } from './backend-words.pure.ts'
import { TargetsField, useCloseSheet, ChangeSheet } from './change-sheet.tsx'

const strategies = [
  { value: 'rolling', label: 'Rolling', hint: 'Starts the new build next to the old one; models keep serving' },
  { value: 'recreate', label: 'Recreate', hint: 'Stops models and replaces the build; the next request loads them again' },
] as const

const defaults = Rollout.parse({})
const initialRollout = {
  canary: String(defaults.canary),
  max_parallel: String(defaults.max_parallel),
  min_healthy_time: defaults.min_healthy_time,
}
type RolloutText = typeof initialRollout

export function UpgradeSheet({ name }: { readonly name: BackendName }) {
  const [strategy, setStrategy] = useState<Strategy>('rolling')
  const [text, setText] = useState(initialRollout)
  const facts = useBackendFacts(name)
  const upgrade = useQuery(upgradesQuery).data?.upgrades[name]
  const { selection, problem, ...field } = useTargets()
  const rollout = Rollout.safeParse({ ...text, canary: toNumber(text.canary), max_parallel: toNumber(text.max_parallel) })
  const rolloutFields = strategy === 'recreate' ? {} : rollout.success ? { rollout: rollout.data } : null
  const change: BackendChange | null =
    selection === null || rolloutFields === null
      ? null
      : { kind: 'backend.upgrade', name, body: { strategy, ...rolloutFields, ...selection } }
  const dryRun = useDryRun(change, facts.fingerprint)
  const prompt = problem ?? 'Complete the rollout settings.'
  const installed = facts.nodes.filter(({ id }) => facts.installed.has(id))
  return (
    <ChangeSheet title={`Upgrade ${name}`} {...{ name, kind: 'backend.upgrade', change, dryRun, facts, prompt }}>
      <p className="[overflow-wrap:anywhere]">
        {upgrade === undefined
          ? 'No update available. The installed build is verified, and repaired if it is damaged.'
          : `${upgradeWords(name, upgrade)}.${isNewer(upgrade) ? '' : ' All nodes get the same build.'}`}
      </p>
      <TargetsField {...field} {...{ problem, nodes: installed, allLabel: 'All nodes with this backend', hasLabels: true }} />
      <RadioGroup legend="Strategy" choices={strategies} chosen={strategy} onSelect={setStrategy} />
      {strategy === 'rolling' && <RolloutFields text={text} onChange={setText} problems={problemsOf(rollout.error)} />}
    </ChangeSheet>
  )
}

/** Anything but a whole number becomes NaN, which the schema rejects. */
const toNumber = (text: string): unknown => (/^\s*\d+\s*$/.test(text) ? Number(text) : Number.NaN)

type Problems = Readonly<Partial<Record<keyof RolloutText, string>>>

const problemsOf = (error: { issues: readonly { path: readonly PropertyKey[]; message: string }[] } | undefined): Problems =>
  Object.fromEntries(
    error?.issues.map(({ path: [field], message }) => [
      field,
      field === 'min_healthy_time' ? sentence(message) : 'Enter a number from 1 to 10,000.',
    ]) ?? [],
  )

function RolloutFields({ text, onChange, problems }: { text: RolloutText; onChange: (text: RolloutText) => void; problems: Problems }) {
  const field = (name: keyof RolloutText) => ({
    value: text[name],
    error: problems[name] ?? null,
    onChange: (event: { target: { value: string } }) => onChange({ ...text, [name]: event.target.value }),
  })
  return (
    <div className="grid grid-cols-3 gap-3">
      <TextField label="Canary nodes" hint="Upgraded first" inputMode="numeric" {...field('canary')} />
      <TextField label="Nodes per ring" hint="Upgraded at the same time" inputMode="numeric" {...field('max_parallel')} />
      <TextField label="Minimum healthy time" hint="Before the next ring" {...field('min_healthy_time')} />
    </div>
  )
}

export function UpgradeAllSheet() {
  const close = useCloseSheet()
  const query = useQuery(upgradesQuery)
  const [excluded, setExcluded] = useState<readonly string[]>([])
  const submission = useUpgradeAll()
  const upgrades = query.data?.upgrades ?? {}
  const names = Object.keys(upgrades).toSorted()
  const selected = names.filter((name) => !excluded.includes(name))
  const text = selected.length === 1 ? `Upgrade ${selected[0]}` : `Upgrade ${plural(selected.length, 'backend')}`
  return (
    <Dialog
      title="Upgrade all"
      place="sheet"
      onClose={close}
      footer={
        <>
          <Button onClick={close}>Cancel</Button>
          <Button look="primary" disabled={selected.length === 0} isBusy={submission.isPending} onClick={() => submission.mutate(selected)}>
            {selected.length === 0 ? 'Nothing to upgrade' : text}
          </Button>
        </>
      }
    >
      <Loaded query={query} what="updates">
        {() =>
          names.length === 0 ? (
            <p>No updates available.</p>
          ) : (
            <Choices upgrades={upgrades} names={names} excluded={excluded} onExclude={setExcluded} />
          )
        }
      </Loaded>
      {submission.error !== null && <Failed title="Could not start" error={submission.error} />}
    </Dialog>
  )
}

interface ChoicesProps {
  readonly upgrades: Upgrades
  readonly names: readonly string[]
  readonly excluded: readonly string[]
  readonly onExclude: (excluded: readonly string[]) => void
}

function Choices({ upgrades, names, excluded, onExclude }: ChoicesProps) {
  const backends = useQuery(backendsQuery).data ?? []
  const models = useQuery(modelsQuery).data ?? []
  return (
    <>
      <ul aria-label="Backends to upgrade" className="flex flex-col gap-3">
        {names.map((name) => {
          const upgrade = upgrades[name]
          const serving = models.filter((model) => model.backend === name && model.replicas_ready > 0).map((model) => model.name)
          return (
            upgrade !== undefined && (
              <li key={name}>
                <Check
                  label={upgradeWords(name, upgrade)}
                  isChecked={!excluded.includes(name)}
                  onChange={(isChecked) => onExclude(isChecked ? excluded.filter((each) => each !== name) : [...excluded, name])}
                />
                <p className="pl-5 text-[13px] text-soft [overflow-wrap:anywhere]">
                  {whereWords(
                    upgrade,
                    backends.find((backend) => backend.name === name),
                  )}
                  {serving.length > 0 && ` ${listNames(serving)} ${serving.length === 1 ? 'keeps' : 'keep'} serving.`}
                </p>
              </li>
            )
          )
        })}
      </ul>
      <p className="text-soft">
        Each backend is rolled out separately: one canary node, then one node at a time, with the new build next to the old one. If a node
        fails, the nodes before it return to their previous build.
      </p>
    </>
  )
}

/** `On 3 nodes; gpu-3 when healthy; 1 node has a different build.` */
function whereWords(upgrade: UpgradeView, backend: BackendView | undefined): string {
  const nodes = backend?.nodes ?? []
  const away = nodes.filter(({ node_status: status }) => isAway(status)).map(({ node_name: node }) => node)
  return `${[
    `On ${plural(nodes.length, 'node')}`,
    ...(away.length > 0 ? [`${listNames(away)} when healthy`] : []),
    ...(upgrade.node_drift.length > 0 ? [driftWords(upgrade.node_drift.length)] : []),
  ].join('; ')}.`
}

function useUpgradeAll() {
  const navigate = useNavigate()
  const notify = useNotices()
  return useMutation({
    mutationFn: (names: readonly string[]) =>
      call(backendRoutes.upgradeAll, { body: { strategy: 'rolling', backends: names.map((name) => BackendName.parse(name)) } }),
    onSuccess: async (answer) => {
      const operations = answer.operations.filter((operation) => 'operation_id' in operation)
      const [first, ...others] = operations
      notify(
        first === undefined ? 'good' : 'work',
        first === undefined ? 'All backends are up to date' : `Upgrade started: ${listNames(operations.map(({ backend }) => backend))}`,
      )
      // A single operation opens in the drawer; the strip shows several.
      const op = first !== undefined && others.length === 0 ? { op: first.operation_id } : {}
      await navigate({ to: '.', replace: true, search: (before) => ({ ...before, act: undefined, backend: undefined, ...op }) })
    },
  })
}
