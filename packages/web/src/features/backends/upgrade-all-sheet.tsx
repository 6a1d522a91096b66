// Upgrading everything that has an update, or some of it: one operation for each backend.
import { backendRoutes, BackendName, type BackendView, type UpgradeView } from '@muster/protocol'
import { useMutation, useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { call } from '../../api/client.ts'
import { backendsQuery, modelsQuery, upgradesQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { Failed, Loaded } from '../../components/loaded.tsx'
import { useNotices } from '../../components/notices.tsx'
import { listNames, plural } from '../../format/amounts.ts'
import { Check } from '../../components/choices.tsx'
import { driftWords, isAway, upgradeWords, type Upgrades } from './sentences.ts'
import { useCloseSheet } from './use-close-sheet.ts'

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
