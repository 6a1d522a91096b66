// Lists the files of a Hugging Face repository at a revision: the commit, then the tree of that commit, page by page.
import { type Clock, parseJson, type Secret } from '@muster/host'
import { FleetError } from '@muster/protocol'
import { z } from 'zod'
import { createBusyRetry } from '../outbound/busy-retry.ts'
import type { Outbound, OutboundResponse } from '../outbound/outbound.ts'
import { failureOfStatus } from '../outbound/status-failure.ts'
import type { Artifact, HubFile, HubListing } from './artifacts.pure.ts'

export interface HubDeps {
  readonly outbound: Outbound
  readonly endpoint: string
  readonly token: Secret | null
  readonly clock: Clock
  readonly log: Parameters<typeof createBusyRetry>[0]['log']
}

export type ListRepository = (artifact: Pick<Artifact, 'repository' | 'revision'>, signal: AbortSignal) => Promise<HubListing>

const Revision = z.object({ sha: z.string().regex(/^[0-9a-f]{40}$/) })
const TreeEntry = z.object({
  type: z.string(),
  path: z.string().min(1).max(1024),
  size: z.number().int().min(0).default(0),
  lfs: z.object({ oid: z.string().regex(/^[0-9a-f]{64}$/), size: z.number().int().min(0) }).nullish(),
})
const Tree = z.array(TreeEntry).max(10_000)

const maxBytes = 8 * 1024 * 1024
/** 1,000 entries each. */
const mostPages = 20

export function createListRepository({ outbound, endpoint, token, clock, log }: HubDeps): ListRepository {
  const patiently = createBusyRetry({ clock, log, random: Math.random })
  const headers = token === null ? {} : { authorization: `Bearer ${token.reveal()}` }
  const howToLogIn = 'set --hf-token (MUSTER_HF_TOKEN) of the controller to a token that may read it'
  const request = async (url: URL, what: string, signal: AbortSignal): Promise<OutboundResponse> =>
    await patiently(async () => {
      const response = await outbound.request({ url, headers: { accept: 'application/json', ...headers }, signal, what })
      if (response.status === 200) return response
      throw await failureOfStatus(response, { what, server: response.url.host, now: clock.now(), howToLogIn })
    }, signal)
  const read = async <T>(response: OutboundResponse, schema: z.ZodType<T>, what: string): Promise<T> => {
    const parsed = schema.safeParse(parseJson(await response.text(maxBytes)))
    if (parsed.success) return parsed.data
    throw new FleetError({ code: 'invalid', retry: 'never', message: `${what}: ${response.url.host} sent an answer of another form` })
  }

  return async ({ repository, revision }, signal) => {
    const what = `the repository ${repository} at ${revision}`
    const api = `${endpoint.replace(/\/+$/, '')}/api/models/${repository}`
    const found = await request(new URL(`${api}/revision/${encodeURIComponent(revision)}`), what, signal)
    const { sha: commit } = await read(found, Revision, what)
    const files: HubFile[] = []
    let next: URL | null = new URL(`${api}/tree/${commit}?recursive=true`)
    for (let page = 0; next !== null; page++) {
      if (page >= mostPages) throw new FleetError({ code: 'invalid', retry: 'never', message: `${what}: it has too many files` })
      const response = await request(next, what, signal)
      for (const { type, path, size, lfs } of await read(response, Tree, what))
        if (type === 'file') files.push({ path, size: lfs?.size ?? size, sha256: lfs?.oid ?? null })
      next = nextPage(response, next)
    }
    return { commit, files }
  }
}

/** Only at the same server: the token goes along. */
function nextPage({ headers, url }: OutboundResponse, before: URL): URL | null {
  const [, target] = /<([^>]+)>\s*;\s*rel="?next"?/.exec(headers['link'] ?? '') ?? []
  const next = target === undefined ? null : URL.parse(target, url.href)
  return next === null || next.origin !== before.origin ? null : next
}
