// Available updates: the banner with the button that upgrades all, and the check of galleries and registries.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { backendRoutes } from '@muster/protocol'
import { call } from '../../api/client.ts'
import { operationsQuery, upgradesQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { Problems } from '../../components/loaded.tsx'
import { useNotices } from '../../components/notices.tsx'
import { When } from '../../components/time.tsx'
import { listNames, plural } from '../../format.ts'
import { beingUpgraded, upgradesSentence } from './backend-words.pure.ts'

export function UpgradesBanner() {
  const navigate = useNavigate()
  const upgrades = useQuery(upgradesQuery).data?.upgrades ?? {}
  const active = useQuery(operationsQuery('active')).data ?? []
  const sentence = upgradesSentence(upgrades)
  if (sentence === '') return null
  const upgrading = beingUpgraded(upgrades, active)
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
        {upgrading.length > 0 && (
          <span className="text-work">
            {' '}
            {listNames(upgrading)} {upgrading.length === 1 ? 'is' : 'are'} being upgraded.
          </span>
        )}
      </p>
      <Button onClick={() => void navigate({ to: '/backends', search: (before) => ({ op: before.op, act: 'upgrade-all' }) })}>
        Upgrade all
      </Button>
    </section>
  )
}

export function CheckNow() {
  const client = useQueryClient()
  const notify = useNotices()
  const checkedAt = useQuery(upgradesQuery).data?.checked_at
  const check = useMutation({
    mutationFn: () => call(backendRoutes.check, { body: {} }),
    onSuccess: (result) => {
      client.setQueryData(upgradesQuery.queryKey, result)
      const count = Object.keys(result.upgrades).length
      if (count > 0) notify('wait', `${plural(count, 'update')} available`)
      else if (result.problems.length > 0) notify('wait', 'No updates found, but some sources could not be checked')
      else notify('good', 'All backends are up to date')
    },
    onError: (error) => notify('bad', error.message),
  })
  return (
    <div className="flex items-center gap-2 text-soft">
      <span className="text-[13px]">
        {checkedAt === null ? (
          'Never checked for updates'
        ) : checkedAt === undefined ? (
          ''
        ) : (
          <>
            Checked for updates <When at={checkedAt} />
          </>
        )}
      </span>
      <Button onClick={() => check.mutate()} isBusy={check.isPending}>
        Check now
      </Button>
    </div>
  )
}

export function CheckProblems() {
  const problems = useQuery(upgradesQuery).data?.problems ?? []
  return (
    <Problems
      title="Some sources could not be checked for updates"
      problems={problems.map(({ backend, message }) => (backend === null ? message : `${backend}: ${message}`))}
    />
  )
}
