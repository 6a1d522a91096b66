// backend.proto, loaded once: how its calls are written and read, and which fields a message has.
import { join } from 'node:path'
import { loadSync, type MethodDefinition } from '@grpc/proto-loader'
import { z } from 'zod'

const definition = loadSync(join(import.meta.dirname, 'backend.proto'), { keepCase: true, longs: Number, enums: String, defaults: true })

export type Method = MethodDefinition<object, object>

export function methodOf(name: string): Method {
  const service = definition['backend.Backend']
  const method = service !== undefined && !('format' in service) ? service[name] : undefined
  if (method === undefined) throw new Error(`backend.proto has no ${name}`)
  return method
}

/** As descriptors name kinds: `TYPE_STRING`, `TYPE_INT32`, … */
export type Field = Readonly<{ name: string; number: number; kind: string; isRepeated: boolean }>
const Descriptor = z.object({
  field: z.array(z.object({ name: z.string(), number: z.number(), type: z.string(), label: z.string() })),
})

export function fieldsOf(message: string): readonly Field[] {
  const found = definition[`backend.${message}`]
  if (found === undefined || !('type' in found)) throw new Error(`backend.proto has no message ${message}`)
  const { field } = Descriptor.parse(found.type)
  return field.map(({ name, number, type, label }) => ({ name, number, kind: type, isRepeated: label === 'LABEL_REPEATED' }))
}
