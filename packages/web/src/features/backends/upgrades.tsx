// That backends have updates, wherever it is worth knowing: how many, which, and the button for all of them. Where there
// is none there is no banner: the number falls by itself as nodes report what they have.
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

export function CheckNow() {
  const client = useQueryClient()
  const tell = useNotices()
  const checkedAt = useQuery(upgradesQuery).data?.checked_at
  const check = useMutation({
    mutationFn: () => call(backendRoutes.check, { body: {} }),
    onSuccess: (answer) => {
      client.setQueryData(upgradesQuery.queryKey, answer)
      const count = Object.keys(answer.upgrades).length
      if (count > 0) tell('wait', `${plural(count, 'backend has an update', 'backends have updates')}.`)
      else if (answer.problems.length > 0) tell('wait', 'No update was found, but not everything could be checked.')
      else tell('good', 'Everything is up to date.')
    },
    onError: (error) => tell('bad', error.message),
  })
  return (
    <div className="flex items-center gap-2 text-soft">
      <span className="text-[13px]">
        {checkedAt === null ? (
          'Not yet checked for updates'
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
      title="Not everything could be checked for updates."
      problems={problems.map(({ backend, message }) => (backend === null ? message : `${backend}: ${message}`))}
    />
  )
}
