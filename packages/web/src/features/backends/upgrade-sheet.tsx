// Upgrading one backend: where, and how carefully.
import { Rollout, type BackendName, type Strategy } from '@muster/protocol'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { upgradesQuery } from '../../api/queries.ts'
import { TextField } from '../../components/field.tsx'
import { OneOf } from '../../components/choices.tsx'
import { isNewer, upgradeWords } from './sentences.ts'
import { TargetsField } from './targets-field.tsx'
import { useDryRun } from './use-dry-run.ts'
import { useFacts } from './use-facts.ts'
import { everywhere, namedTargets, type Wish } from './wish.ts'
import { WishSheet } from './wish-sheet.tsx'

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
