// When galleries and registries were last asked for something newer, what could not be found out, and asking now.
import { backendRoutes } from '@muster/protocol'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { call } from '../../api/client.ts'
import { upgradesQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { useNotices } from '../../components/notices.tsx'
import { Problems } from '../../components/problems.tsx'
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

export function CheckProblems() {
  const problems = useQuery(upgradesQuery).data?.problems ?? []
  return (
    <Problems
      title="Not everything could be checked for updates."
      problems={problems.map(({ backend, message }) => (backend === null ? message : `${backend}: ${message}`))}
    />
  )
}
