// Why a model, or one more replica of it, did not come up: in full, with when it is tried again.
import type { LoadFailure, ModelView } from '@muster/protocol'
import { Button } from '../../components/button.tsx'
import { useNow, When } from '../../components/time.tsx'
import { plural } from '../../format/amounts.ts'
import { nextTry } from './model-words.ts'
import { useModelAct } from './use-model-acts.ts'

export function ModelFailure({ model, failure }: { readonly model: ModelView; readonly failure: LoadFailure }) {
  const load = useModelAct('load')
  const isServing = model.state === 'ready'
  const now = useNow()
  return (
    <section
      aria-label="Failure"
      className={`flex flex-col items-start gap-2 rounded-md border p-3 ${isServing ? 'border-wait' : 'border-bad'}`}
    >
      <p className={`font-medium ${isServing ? 'text-wait' : 'text-bad'}`}>
        {isServing ? 'It serves, but another replica could not come up' : 'It could not be loaded'} ({failure.code.replaceAll('_', ' ')})
      </p>
      <pre className="max-h-72 w-full overflow-auto font-mono text-[13px] whitespace-pre-wrap [overflow-wrap:anywhere]">
        {failure.message}
      </pre>
      <p className="text-soft">
        {failure.attempts > 0 && (
          <>
            {plural(failure.attempts, 'try', 'tries')}, the last <When at={failure.at} />.{' '}
          </>
        )}
        {nextTry(failure.next_retry_at, now)}.
      </p>
      <Button isBusy={load.isPending} onClick={() => load.mutate(model.name)}>
        Try again now
      </Button>
    </section>
  )
}
