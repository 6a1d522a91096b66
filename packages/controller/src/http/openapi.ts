// The OpenAPI document, generated from the route definitions that are served.
import { version } from '@muster/host'
import { ApiError, type Access, type Route, type SuccessStatus } from '@muster/protocol'
import { z } from 'zod'

const accessSentence: Readonly<Record<Access, string>> = {
  open: 'Open to anyone.',
  inference: 'Needs a key with the scope inference or admin; open where only this machine can reach it.',
  metrics: 'Needs a key with the scope read or admin; open where only this machine can reach it.',
  read: 'Needs a key with the scope read or admin.',
  admin: 'Needs a key with the scope admin.',
  node: 'Signed by a node with its own key.',
}

const schemaOf = (schema: z.ZodType, io: 'input' | 'output'): object =>
  z.toJSONSchema(schema, { io, unrepresentable: 'any', target: 'draft-2020-12' })

function parametersOf(location: 'path' | 'query', schema: z.ZodType | undefined): object[] {
  if (!(schema instanceof z.ZodObject)) return []
  return Object.entries(schema.shape).map(([name, field]) => ({
    name,
    in: location,
    required: location === 'path' || !(field as z.ZodType).safeParse(undefined).success,
    schema: schemaOf(field as z.ZodType, 'input'),
  }))
}

function operationOf(route: Route): object {
  const isSecured = route.access === 'read' || route.access === 'admin' || route.access === 'inference' || route.access === 'metrics'
  return {
    summary: route.summary,
    ...(route.dialect === undefined ? {} : { tags: [route.dialect] }),
    description: accessSentence[route.access],
    ...(isSecured ? { security: [{ key: [] }] } : { security: [] }),
    parameters: [...parametersOf('path', route.params), ...parametersOf('query', route.query)],
    ...(route.body === undefined ? {} : { requestBody: { content: { 'application/json': { schema: schemaOf(route.body, 'input') } } } }),
    responses: {
      ...responseOf(route, route.status ?? 200),
      ...(route.otherStatus === undefined ? {} : responseOf(route, route.otherStatus)),
      default: { description: 'Error', content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } } },
    },
  }
}

function responseOf({ produces = 'application/json', response }: Route, status: SuccessStatus): Record<string, object> {
  const content = { [produces]: response === undefined ? {} : { schema: schemaOf(response, 'output') } }
  return { [String(status)]: { description: 'Done', ...(status === 204 ? {} : { content }) } }
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
    tags: [
      {
        name: 'localai',
        description:
          'Routes for scripts that were written for LocalAI. Unknown fields are ignored, a key may be in x-api-key or xi-api-key, and errors have the form {"error":{"code":STATUS,"message","type":""}}.',
      },
    ],
    paths,
    components: { schemas: { Error: schemaOf(ApiError, 'output') }, securitySchemes: { key: { type: 'http', scheme: 'bearer' } } },
  }
}
