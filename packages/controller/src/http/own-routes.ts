// Calls of Muster's own routes from inside: a layer for foreign clients calls the same handlers as the API, with parsed input.
import type { Route } from '@muster/protocol'
import type { z } from 'zod'
import { Answer, type Call, type Endpoint } from './endpoint.ts'

/** Parts that the route does not define are left out, and a query may be: it is that of a request without one. `request` replaces the caller's, for routes that read the body themselves. */
type OwnInput<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType> = Readonly<{
  params?: z.infer<P>
  query?: z.infer<Q> | undefined
  body?: z.infer<B>
  request?: Request
}>

/** The answer of a route, as its clients get it. Errors are thrown. */
export type CallOwn = <P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType, R extends z.ZodType>(
  route: Route<P, Q, B, R>,
  caller: Call<Route>,
  input?: OwnInput<P, Q, B>,
) => Promise<z.infer<R>>

export function createOwnCalls(endpoints: readonly Endpoint[]): CallOwn {
  const byRoute = new Map<Route, Endpoint['handle']>(endpoints.map((endpoint) => [endpoint.route, endpoint.handle]))
  return async (route, caller, { params, query, body, request } = {}) => {
    const handle = byRoute.get(route)
    if (handle === undefined || route.response === undefined)
      throw new Error(`${route.method} ${route.path} is not served, or answers no JSON`)
    const input = request === undefined ? {} : { request, headers: request.headers }
    const result = await handle({ ...caller, ...input, params, query: query ?? route.query?.parse({}), body })
    return route.response.parse(result instanceof Answer ? result.body : result)
  }
}
