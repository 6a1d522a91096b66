// Upgrading one backend: where, and how carefully.
import { useMutation, useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { BackendName, backendRoutes, type BackendView, Rollout, type Strategy, type UpgradeView } from '@muster/protocol'
import { call } from '../../api/client.ts'
import { backendsQuery, modelsQuery, upgradesQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { Check, OneOf, TextField } from '../../components/field.tsx'
import { Failed, Loaded } from '../../components/loaded.tsx'
import { useNotices } from '../../components/notices.tsx'
import { listNames, plural } from '../../format.ts'
import { everywhere, namedTargets, useDryRun, useFacts, type Wish } from './backend-change.ts'
import { driftWords, isAway, isNewer, type Upgrades, upgradeWords } from './backend-words.pure.ts'
import { TargetsField, useCloseSheet, WishSheet } from './change-sheet.tsx'

const strategies = [
  { value: 'rolling', label: 'Rolling', hint: 'the new build beside the old one; models go on serving' },
  { value: 'recreate', label: 'Recreate', hint: 'stop, replace; models are loaded again by the next request' },
] as const

const defaults = Rollout.parse({})
const firstRollout = {
  canary: String(defaults.canary),
  max_parallel: String(defaults.max_parallel),
  min_healthy_time: defaults.min_healthy_time,
}
type RolloutText = typeof firstRollout

export function UpgradeSheet({ name }: { readonly name: BackendName }) {
  const [targets, setTargets] = useState(everywhere)
  const [strategy, setStrategy] = useState<Strategy>('rolling')
  const [text, setText] = useState(firstRollout)
  const facts = useFacts(name)
  const upgrade = useQuery(upgradesQuery).data?.upgrades[name]
  const named = namedTargets(targets)
  const problem = 'problem' in named ? named.problem : null
  const rollout = Rollout.safeParse({ ...text, canary: toNumber(text.canary), max_parallel: toNumber(text.max_parallel) })
  const careful = strategy === 'recreate' ? {} : rollout.success ? { rollout: rollout.data } : null
  const wish: Wish | null =
    'problem' in named || careful === null ? null : { kind: 'backend.upgrade', name, body: { strategy, ...careful, ...named } }
  const dry = useDryRun(wish, facts.world)
  const waitingFor = problem ?? 'Say how it is rolled out.'
  const having = facts.nodes.filter(({ id }) => facts.installed.has(id))
  return (
    <WishSheet title={`Upgrade ${name}`} {...{ name, kind: 'backend.upgrade', wish, dry, facts, waitingFor }}>
      <p className="[overflow-wrap:anywhere]">
        {upgrade === undefined
          ? 'Nothing newer is known: what is there is verified, and repaired where it is damaged.'
          : `${upgradeWords(name, upgrade)}${isNewer(upgrade) ? '' : ': all get the same'}.`}
      </p>
      <TargetsField {...{ targets, onChange: setTargets, nodes: having, all: 'On every node that has it', problem, hasLabels: true }} />
      <OneOf legend="How" choices={strategies} chosen={strategy} onChoose={setStrategy} />
      {strategy === 'rolling' && <RolloutFields text={text} onChange={setText} problems={problemsOf(rollout.error)} />}
    </WishSheet>
  )
}

/** What is no number stays what it is: the schema says so. */
const toNumber = (text: string): unknown => (/^\s*\d+\s*$/.test(text) ? Number(text) : Number.NaN)

type Problems = Readonly<Partial<Record<keyof RolloutText, string>>>

const problemsOf = (error: { issues: readonly { path: readonly PropertyKey[]; message: string }[] } | undefined): Problems =>
  Object.fromEntries(
    error?.issues.map(({ path: [field], message }) => [
      field,
      field === 'min_healthy_time' ? `${message}.` : 'A number from 1 to 10,000.',
    ]) ?? [],
  )

interface RolloutFieldsProps {
  readonly text: RolloutText
  readonly onChange: (text: RolloutText) => void
  readonly problems: Problems
}

function RolloutFields({ text, onChange, problems }: RolloutFieldsProps) {
  const field = (name: keyof RolloutText) => ({
    value: text[name],
    error: problems[name] ?? null,
    onChange: (event: { target: { value: string } }) => onChange({ ...text, [name]: event.target.value }),
  })
  return (
    <div className="grid grid-cols-3 gap-3">
      <TextField label="First" hint="nodes, as canaries" inputMode="numeric" {...field('canary')} />
      <TextField label="Then at once" hint="nodes in each ring" inputMode="numeric" {...field('max_parallel')} />
      <TextField label="Healthy for" hint="before the next ring" {...field('min_healthy_time')} />
    </div>
  )
}

export function UpgradeAllSheet() {
  const close = useCloseSheet()
  const query = useQuery(upgradesQuery)
  const [left, setLeft] = useState<readonly string[]>([])
  const begin = useBeginAll()
  const upgrades = query.data?.upgrades ?? {}
  const names = Object.keys(upgrades).toSorted()
  const chosen = names.filter((name) => !left.includes(name))
  const text = chosen.length === 1 ? `Upgrade ${chosen[0]}` : `Upgrade ${plural(chosen.length, 'backend')}`
  return (
    <Dialog
      title="Upgrade all"
      place="sheet"
      onClose={close}
      footer={
        <>
          <Button onClick={close}>Close</Button>
          <Button look="primary" disabled={chosen.length === 0} isBusy={begin.isPending} onClick={() => begin.mutate(chosen)}>
            {chosen.length === 0 ? 'Nothing to upgrade' : text}
          </Button>
        </>
      }
    >
      <Loaded query={query} what="what has updates">
        {() =>
          names.length === 0 ? <p>No updates are known.</p> : <Choices upgrades={upgrades} names={names} left={left} onLeave={setLeft} />
        }
      </Loaded>
      {begin.error !== null && <Failed title="It was not begun." error={begin.error} />}
    </Dialog>
  )
}

interface ChoicesProps {
  readonly upgrades: Upgrades
  readonly names: readonly string[]
  /** Those that are not upgraded. */
  readonly left: readonly string[]
  readonly onLeave: (left: readonly string[]) => void
}

function Choices({ upgrades, names, left, onLeave }: ChoicesProps) {
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
                  isChecked={!left.includes(name)}
                  onChange={(isChecked) => onLeave(isChecked ? left.filter((each) => each !== name) : [...left, name])}
                />
                <p className="pl-5 text-[13px] text-soft [overflow-wrap:anywhere]">
                  {whereWords(
                    upgrade,
                    backends.find((backend) => backend.name === name),
                  )}
                  {serving.length > 0 && ` ${listNames(serving)} ${serving.length === 1 ? 'goes' : 'go'} on serving.`}
                </p>
              </li>
            )
          )
        })}
      </ul>
      <p className="text-soft">
        Each is rolled out by itself: one node first, then one after the other, the new build beside the old one. When a node fails, the
        nodes before it return to the build they had.
      </p>
    </>
  )
}

/** `on 3 nodes; gpu-3 when it returns; 1 node has another build`. */
function whereWords(upgrade: UpgradeView, backend: BackendView | undefined): string {
  const nodes = backend?.nodes ?? []
  const away = nodes.filter(({ node_status: status }) => isAway(status)).map(({ node_name: node }) => node)
  return `${[
    `On ${plural(nodes.length, 'node')}`,
    ...(away.length > 0 ? [`${listNames(away)} when back`] : []),
    ...(upgrade.node_drift.length > 0 ? [driftWords(upgrade.node_drift.length)] : []),
  ].join('; ')}.`
}

function useBeginAll() {
  const navigate = useNavigate()
  const tell = useNotices()
  return useMutation({
    mutationFn: (names: readonly string[]) =>
      call(backendRoutes.upgradeAll, { body: { backends: names.map((name) => BackendName.parse(name)) } }),
    onSuccess: async ({ operations }) => {
      const [first, ...others] = operations
      tell(
        first === undefined ? 'good' : 'work',
        first === undefined
          ? 'Everything is up to date by now.'
          : `Upgrading ${listNames(operations.map(({ backend }) => backend))}: begun.`,
      )
      // One can be followed here; of several the strip above tells.
      const op = first !== undefined && others.length === 0 ? { op: first.operation_id } : {}
      await navigate({ to: '.', replace: true, search: (before) => ({ ...before, wish: undefined, backend: undefined, ...op }) })
    },
  })
}
