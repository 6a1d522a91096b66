// One HTTP request that never hangs.
import { adminKey } from '@muster/testkit'

export interface Answer {
  readonly status: number
  readonly body: Readonly<Record<string, unknown>>
}

export interface RequestOptions {
  readonly method?: string
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly timeoutMs?: number
}

/** Rejects when there is no answer. */
export async function request(
  url: string,
  { method = 'GET', body, headers = {}, timeoutMs = 5_000 }: RequestOptions = {},
): Promise<Answer> {
  const response = await fetch(url, {
    method,
    headers: { authorization: `Bearer ${adminKey}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    signal: AbortSignal.timeout(timeoutMs),
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  return { status: response.status, body: text === '' ? {} : (JSON.parse(text) as Answer['body']) }
}
