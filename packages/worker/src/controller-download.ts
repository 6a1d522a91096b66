// A signed GET whose answer is a stream. Controllers of different versions hold different things: whoever lacks it, or
// can't do its part, is followed by the next. Nobody but the controllers is asked, and no answer sends us elsewhere.
import type { Clock } from '@muster/host'
import { ApiError, FleetError } from '@muster/protocol'
import type { OutboundResponse } from '@muster/source'
import { formatPath, type ControllerRota } from './controller-rota.ts'
import { openStream } from './http-stream.ts'

export type Download = Readonly<{
  route: { readonly path: string }
  params: Readonly<Record<string, string>>
  /** The controller to begin with, where another one has sent something wrong. */
  first?: string
  headers: Readonly<Record<string, string>>
  /** The statuses that are an answer. */
  fine: readonly number[]
  /** For a person: what it is. */
  what: string
  signal: AbortSignal
}>
type Deps = Readonly<{ rota: ControllerRota; clock: Clock }>
/** Status 0: it was not reached. */
type Refusal = Readonly<{ url: string; status: number; message: string }>

const largestRefusal = 65_536
const nothing = new Uint8Array()

export async function download(deps: Deps, wanted: Download): Promise<OutboundResponse> {
  const refusals: Refusal[] = []
  for (const url of inOrder(deps.rota.all(), wanted.first)) {
    const answer = await ask(deps, url, wanted)
    if ('body' in answer) return answer
    refusals.push(answer)
    if (answer.status === 0 || answer.status >= 500) deps.rota.rotate(url)
  }
  const reasons = refusals.map(({ url, message }) => `${url} ${message}`).join('; ')
  // Another one may come that has it: controllers are replaced one by one.
  const code = refusals.every(({ status }) => status === 404) ? 'not_found' : 'unavailable'
  throw new FleetError({ code, retry: 'backoff', message: `no controller gives ${wanted.what}: ${reasons}`.slice(0, 2000) })
}

/** Only controllers are asked, whoever is named. */
const inOrder = (known: readonly string[], first: string | undefined): readonly string[] =>
  first !== undefined && known.includes(first) ? [first, ...known.filter((url) => url !== first)] : known

async function ask({ rota, clock }: Deps, url: string, wanted: Download): Promise<OutboundResponse | Refusal> {
  const { route, params, headers, fine, signal } = wanted
  const target = new URL(formatPath(route.path, params), url)
  const onBroken = (): void => rota.rotate(url)
  const send = (): Promise<OutboundResponse> =>
    openStream({ url: target, headers: { ...headers, ...rota.sign({ method: 'GET', target, body: nothing }) }, onBroken, clock, signal })
  try {
    let response = await send()
    if (fine.includes(response.status)) return response
    let body = await readJson(response)
    if (rota.isSkewed({ status: response.status, body })) {
      response = await send()
      if (fine.includes(response.status)) return response
      body = await readJson(response)
    }
    return { url, ...judge(response.status, body) }
  } catch (error) {
    signal.throwIfAborted()
    return { url, status: 0, message: `did not answer (${error instanceof Error ? error.message : String(error)})` }
  }
}

/** What is not a controller's own word says nothing about what controllers have. */
function judge(status: number, body: unknown): Omit<Refusal, 'url'> {
  const said = ApiError.safeParse(body).data?.error
  if (said === undefined) return { status: 0, message: `answered ${status}, and not as a controller does` }
  return { status, message: `answered ${status} (${said.code}: ${said.message.slice(0, 300)})` }
}

async function readJson(response: OutboundResponse): Promise<unknown> {
  try {
    return JSON.parse(await response.text(largestRefusal))
  } catch {
    response.body.destroy()
    return undefined
  }
}
