// The OpenAPI page, made from the same route definitions that are served.
import { version } from '@muster/host'
import type { Access, Route } from '@muster/protocol'
import { z } from 'zod'

const accessSentence: Readonly<Record<Access, string>> = {
  open: 'Open to anyone.',
  inference: 'Needs a key with the scope inference or admin; open on a loopback host.',
  metrics: 'Needs a key with the scope read or admin; open on a loopback host.',
  read: 'Needs a key with the scope read or admin.',
  admin: 'Needs a key with the scope admin.',
  node: 'Signed by a node with its own key.',
}

const schemaOf = (schema: z.ZodType, io: 'input' | 'output'): object =>
  z.toJSONSchema(schema, { io, unrepresentable: 'any', target: 'draft-2020-12' })

function parametersOf(place: 'path' | 'query', schema: z.ZodType | undefined): object[] {
  if (!(schema instanceof z.ZodObject)) return []
  return Object.entries(schema.shape).map(([name, field]) => ({
    name,
    in: place,
    required: place === 'path' || !(field as z.ZodType).safeParse(undefined).success,
    schema: schemaOf(field as z.ZodType, 'input'),
  }))
}

function operationOf(route: Route): object {
  const isSecured = route.access === 'read' || route.access === 'admin' || route.access === 'inference' || route.access === 'metrics'
  const type = route.produces ?? 'application/json'
  return {
    summary: route.summary,
    description: accessSentence[route.access],
    ...(isSecured ? { security: [{ key: [] }] } : { security: [] }),
    parameters: [...parametersOf('path', route.params), ...parametersOf('query', route.query)],
    ...(route.body === undefined ? {} : { requestBody: { content: { 'application/json': { schema: schemaOf(route.body, 'input') } } } }),
    responses: {
      [String(route.status ?? 200)]: {
        description: 'Done',
        ...(route.status === 204
          ? {}
          : { content: { [type]: route.response === undefined ? {} : { schema: schemaOf(route.response, 'output') } } }),
      },
      default: { description: 'Error', content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } } },
    },
  }
}

const errorSchema = {
  type: 'object',
  required: ['error'],
  properties: {
    error: {
      type: 'object',
      required: ['code', 'message'],
      properties: { code: { type: 'string' }, message: { type: 'string' }, details: { type: 'object' } },
    },
  },
}

export function openApiOf(routes: readonly Route[]): object {
  const paths: Record<string, Record<string, object>> = {}
  for (const route of routes) {
    const path = route.path.replace(/:(\w+)/g, '{$1}')
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operationOf(route) }
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Muster', version, description: 'Many machines, one OpenAI-compatible endpoint.', license: { name: 'Apache-2.0' } },
    paths,
    components: { schemas: { Error: errorSchema }, securitySchemes: { key: { type: 'http', scheme: 'bearer' } } },
  }
}
