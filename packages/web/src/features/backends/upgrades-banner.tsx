// That backends have updates, wherever it is worth knowing: how many, which, and the button for all of them. Where there
// is none there is no banner: the number falls by itself as nodes report what they have.
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { operationsQuery, upgradesQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { listNames } from '../../format/amounts.ts'
import { beingUpgraded, upgradesSentence } from './sentences.ts'

export function UpgradesBanner() {
  const navigate = useNavigate()
  const upgrades = useQuery(upgradesQuery).data?.upgrades ?? {}
  const active = useQuery(operationsQuery('active')).data ?? []
  const sentence = upgradesSentence(upgrades)
  if (sentence === '') return null
  const working = beingUpgraded(upgrades, active)
  return (
    <section
      aria-label="Updates"
      className="flex flex-wrap items-center justify-between gap-x-4 gap-y-2 rounded-md border bg-raised px-3 py-2"
    >
      <p className="min-w-0 flex-1 basis-64 [overflow-wrap:anywhere]">
        <span aria-hidden className="mr-1.5 text-wait">
          ⇡
        </span>
        {sentence}
        {working.length > 0 && (
          <span className="text-work">
            {' '}
            {listNames(working)} {working.length === 1 ? 'is' : 'are'} being upgraded.
          </span>
        )}
      </p>
      <Button onClick={() => void navigate({ to: '/backends', search: (before) => ({ op: before.op, wish: 'upgrade-all' }) })}>
        Upgrade all
      </Button>
    </section>
  )
}
