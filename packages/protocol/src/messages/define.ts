// The definition of a command or topic on the bus: once, for both sides. A subject is a template; its parameters are validated
// when it is formatted and when it is parsed.
import type { z } from 'zod'

export type ParamSchemas = Readonly<Record<string, z.ZodType<string, string>>>
export type Params<P extends ParamSchemas> = { readonly [K in keyof P]: z.infer<P[K]> }
/** For subscriptions: a parameter, or `*`. */
export type ParamsOrAny<P extends ParamSchemas> = { readonly [K in keyof P]: z.infer<P[K]> | '*' }

interface AddressedMessage<P extends ParamSchemas> {
  readonly subject: string
  readonly params: P
}
export interface Command<
  P extends ParamSchemas = ParamSchemas,
  Q extends z.ZodType = z.ZodType,
  R extends z.ZodType = z.ZodType,
> extends AddressedMessage<P> {
  readonly kind: 'command'
  readonly request: Q
  readonly reply: R
}
export interface Topic<P extends ParamSchemas = ParamSchemas, M extends z.ZodType = z.ZodType> extends AddressedMessage<P> {
  readonly kind: 'topic'
  readonly message: M
}

export const command = <P extends ParamSchemas, Q extends z.ZodType, R extends z.ZodType>(
  definition: Omit<Command<P, Q, R>, 'kind'>,
): Command<P, Q, R> => ({ kind: 'command', ...definition })

export const topic = <P extends ParamSchemas, M extends z.ZodType>(definition: Omit<Topic<P, M>, 'kind'>): Topic<P, M> => ({
  kind: 'topic',
  ...definition,
})

/** The subject for these parameters; throws on a parameter that could change the subject's shape. */
export function formatSubject<P extends ParamSchemas>(definition: AddressedMessage<P>, to: ParamsOrAny<P>): string {
  return definition.subject.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = to[name]
    if (value === '*') return '*'
    const parsed = definition.params[name]?.safeParse(value)
    if (!parsed?.success) throw new Error(`${JSON.stringify(value)} is not a valid ${name} for the subject ${definition.subject}`)
    return parsed.data
  })
}

/** The parameters of a received subject; null when it does not match this definition. */
export function parseSubject<P extends ParamSchemas>(definition: AddressedMessage<P>, subject: string): Params<P> | null {
  const want = definition.subject.split('.')
  const got = subject.split('.')
  if (want.length !== got.length) return null
  const params: Record<string, string> = {}
  for (const [i, part] of want.entries()) {
    const name = /^\{(\w+)\}$/.exec(part)?.[1]
    if (name === undefined) {
      if (part !== got[i]) return null
      continue
    }
    const parsed = definition.params[name]?.safeParse(got[i])
    if (!parsed?.success) return null
    params[name] = parsed.data
  }
  return params as Params<P>
}
