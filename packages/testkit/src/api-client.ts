// The HTTP API as an outside program calls it: without Muster's types or parsing, for any status.
export interface ApiAnswer {
  readonly status: number
  readonly headers: Headers
  // The raw answer, as an outside program would see it.
  readonly body: Record<string, never> & { readonly [key: string]: unknown }
  readonly text: string
}
export interface ApiOptions {
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
  readonly raw?: string | Uint8Array
}
export type ApiClient = ReturnType<typeof createApiClient>

export function createApiClient(url: string, key?: string) {
  async function call(method: string, path: string, options: ApiOptions = {}): Promise<ApiAnswer> {
    const content = options.raw ?? (options.body === undefined ? undefined : JSON.stringify(options.body))
    const response = await fetch(`${url}${path}`, {
      method,
      redirect: 'manual',
      headers: {
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
        ...(content === undefined ? {} : { 'content-type': 'application/json' }),
        ...options.headers,
      },
      ...(content === undefined ? {} : { body: content as NonNullable<RequestInit['body']> }),
    })
    const text = await response.text()
    return { status: response.status, headers: response.headers, text, body: parse(text) }
  }
  return {
    url,
    call,
    /** The answer as a stream, for event streams; cancel its body when done. */
    open: (path: string, headers: Readonly<Record<string, string>> = {}): Promise<Response> =>
      fetch(`${url}${path}`, { headers: { ...(key === undefined ? {} : { authorization: `Bearer ${key}` }), ...headers } }),
    get: (path: string, options?: ApiOptions) => call('GET', path, options),
    post: (path: string, body?: unknown, options?: ApiOptions) => call('POST', path, { ...options, body }),
    put: (path: string, body?: unknown) => call('PUT', path, { body }),
    patch: (path: string, body?: unknown) => call('PATCH', path, { body }),
    delete: (path: string) => call('DELETE', path),
  }
}

function parse(text: string): ApiAnswer['body'] {
  try {
    return JSON.parse(text) as ApiAnswer['body']
  } catch {
    return {}
  }
}
