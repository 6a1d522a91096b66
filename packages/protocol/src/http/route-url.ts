// The address of a route: base URL, path with its parameters filled in, query.
import type { Route } from './define.ts'

type Values = Readonly<Record<string, unknown>>

export function routeUrl(base: URL, route: Pick<Route, 'path'>, input: { params?: unknown; query?: unknown }): URL {
  const params = asValues(input.params)
  const path = route.path.replace(/:([a-z_]+)/g, (_, name: string) => {
    const value = params[name]
    if (typeof value !== 'string') throw new Error(`route ${route.path} needs the parameter ${name}`)
    return encodeURIComponent(value)
  })
  // A controller may stand behind a path of a reverse proxy.
  const url = new URL(base)
  url.pathname = base.pathname.replace(/\/+$/, '') + path
  url.search = ''
  url.hash = ''
  for (const [name, value] of Object.entries(asValues(input.query))) {
    if (value !== undefined && value !== null) url.searchParams.append(name, queryText(value))
  }
  return url
}

/** Lists are written with commas. */
const queryText = (value: {}): string =>
  typeof value === 'string' ? value : Array.isArray(value) ? value.map(String).join(',') : JSON.stringify(value)

function asValues(value: unknown): Values {
  return typeof value === 'object' && value !== null ? { ...value } : {}
}
