// The request of the playground as code: what is written now, or what was asked last.
import { CopyBlock } from '../../components/copy.tsx'
import { Tabs } from '../../components/tabs.tsx'
import { isLoopback } from '../../format/loopback.ts'
import { curlSample, javascriptSample, pythonSample, type Sample } from './code-samples.ts'
import { messagesFor } from './conversation.ts'
import { readParameters } from './parameters.ts'
import type { PlaygroundState } from './playground-store.ts'

const samples: Readonly<Record<string, { readonly label: string; readonly sample: Sample }>> = {
  curl: { label: 'curl', sample: curlSample },
  javascript: { label: 'JavaScript', sample: javascriptSample },
  python: { label: 'Python', sample: pythonSample },
}

export function SameRequest({ state, model, tab }: { readonly state: PlaygroundState; readonly model: string; readonly tab: string }) {
  const chosen = samples[tab] === undefined ? 'curl' : tab
  const { label, sample } = samples[chosen] ?? { label: 'curl', sample: curlSample }
  const { turns } = state.conversation
  const last = turns.at(-1)
  const isDraft = state.draft.trim() !== '' || last === undefined
  const question = isDraft ? (state.draft.trim() === '' ? 'Hello!' : state.draft) : last.question
  const text = sample({
    origin: location.origin,
    isKeyNeeded: !isLoopback(location.hostname),
    model: isDraft ? model : last.model,
    messages: messagesFor(isDraft ? turns : turns.slice(0, -1), { system: state.form.system, question }),
    parameters: readParameters(state.form).parameters,
  })
  return (
    <details className="rounded-md border bg-raised">
      <summary className="px-3 py-2 font-medium">
        Same request as code <span className="font-normal text-soft">{isDraft ? 'of what is written' : 'of the last question'}</span>
      </summary>
      <div className="flex flex-col gap-2 border-t p-3">
        <Tabs label="Language" chosen={chosen} tabs={Object.entries(samples).map(([id, each]) => ({ id, label: each.label }))} />
        <CopyBlock label={`request as ${label}`} text={text} />
      </div>
    </details>
  )
}
