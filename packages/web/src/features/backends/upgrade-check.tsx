// When galleries and registries were last asked for something newer, what could not be found out, and asking now.
import { backendRoutes } from '@muster/protocol'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { call } from '../../api/client.ts'
import { upgradesQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { useNotices } from '../../components/notices.tsx'
import { When } from '../../components/time.tsx'
import { plural } from '../../format/amounts.ts'

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

/** What the last check could not find out: no reason for alarm, and none to hide it. */
export function CheckProblems() {
  const problems = useQuery(upgradesQuery).data?.problems ?? []
  return (
    <Problems
      title="Not everything could be checked for updates."
      problems={problems.map(({ backend, message }) => (backend === null ? message : `${backend}: ${message}`))}
    />
  )
}

export function Problems({ title, problems }: { readonly title: string; readonly problems: readonly string[] }) {
  if (problems.length === 0) return null
  return (
    <section aria-label={title} className="rounded-md border px-3 py-2 text-[13px]">
      <p className="text-wait">{title}</p>
      <ul className="max-h-32 overflow-y-auto text-soft">
        {problems.map((problem) => (
          <li key={problem} className="[overflow-wrap:anywhere]">
            {problem}
          </li>
        ))}
      </ul>
    </section>
  )
}
