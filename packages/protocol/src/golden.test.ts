// Messages as they were first released (golden/v1): every later version must read them, and keep what
// they say. Never edit an example that was released; add new ones, or a new folder.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { messageCatalogue } from './messages/catalogue.ts'
import { formatSubject, parseSubject } from './messages/define.ts'
import type { Command, Topic } from './messages/define.ts'

const folder = join(import.meta.dirname, '..', 'golden', 'v1')
const Part = z.enum(['request', 'reply', 'message'])
type Part = z.infer<typeof Part>

const Golden = z.strictObject({
  subject: z.string(),
  request: z.array(z.unknown()).min(1).optional(),
  reply: z.array(z.unknown()).min(1).optional(),
  message: z.array(z.unknown()).min(1).optional(),
  /** Messages that are read with tolerance: unknown fields, values that cannot be used. */
  read_as: z.array(z.strictObject({ part: Part, sent: z.unknown(), read: z.unknown() })).default([]),
  refused: z.array(z.strictObject({ part: Part, sent: z.unknown() })).default([]),
})

const read = (name: string): z.infer<typeof Golden> => Golden.parse(JSON.parse(readFileSync(join(folder, `${name}.json`), 'utf8')))

function schemaOf(conversation: Command | Topic, part: Part): z.ZodType {
  if (conversation.kind === 'topic' && part === 'message') return conversation.message
  if (conversation.kind === 'command' && part === 'request') return conversation.request
  if (conversation.kind === 'command' && part === 'reply') return conversation.reply
  throw new Error(`a ${conversation.kind} has no ${part}`)
}

/** The forms a message can take, each with its fields. */
function formsOf(schema: z.ZodType): z.ZodObject[] {
  if (schema instanceof z.ZodObject) return [schema]
  if (schema instanceof z.ZodUnion) return schema.options.flatMap((option) => (option instanceof z.ZodType ? formsOf(option) : []))
  throw new Error('a message is an object, or one of several')
}

/** Several conversations share one schema: what one of them never says, another shows. */
function examplesOf(schema: z.ZodType): unknown[] {
  return Object.entries(messageCatalogue).flatMap(([name, conversation]) => {
    const parts: Part[] = conversation.kind === 'command' ? ['request', 'reply'] : ['message']
    return parts.filter((part) => schemaOf(conversation, part) === schema).flatMap((part) => read(name)[part] ?? [])
  })
}

it('every conversation has its golden messages, and there are no others', () => {
  const files = readdirSync(folder).map((file) => file.replace(/\.json$/, ''))
  expect(files.toSorted()).toEqual(Object.keys(messageCatalogue).toSorted())
})

describe.each(Object.entries(messageCatalogue))('%s', (name, conversation) => {
  const golden = read(name)
  const parts: Part[] = conversation.kind === 'command' ? ['request', 'reply'] : ['message']

  it('is spoken on its subject', () => {
    const params = parseSubject(conversation, golden.subject)
    expect(params).not.toBeNull()
    expect(formatSubject(conversation, params ?? {})).toBe(golden.subject)
  })

  it('has examples of its own parts only', () => {
    expect(Part.options.filter((part) => golden[part] !== undefined)).toEqual(parts)
  })

  describe.each(parts)('%s', (part) => {
    const schema = schemaOf(conversation, part)
    const examples = golden[part] ?? []

    it.each(examples.map((example) => [JSON.stringify(example), example] as const))('keeps all of %s', (_, example) => {
      const parsed = schema.parse(example)
      expect(parsed).toMatchObject(z.record(z.string(), z.unknown()).parse(example))
      // The parsed message is what a sender puts on the wire: it must parse to the same again.
      expect(schema.parse(JSON.parse(JSON.stringify(parsed)))).toEqual(parsed)
    })

    it('shows every form, and every field of each', () => {
      for (const form of formsOf(schema)) {
        const isOfThisForm = (example: unknown): boolean => form.safeParse(example).success
        expect(examples.filter(isOfThisForm).length, Object.keys(form.shape).join()).toBeGreaterThan(0)
        const fields = examplesOf(schema)
          .filter(isOfThisForm)
          .flatMap((example) => Object.keys(Object(example)))
        expect(fields).toEqual(expect.arrayContaining(Object.keys(form.shape)))
      }
    })
  })

  it.each(golden.read_as.map((row) => [JSON.stringify(row.sent), row] as const))(
    'reads %s with allowances',
    (_, { part, sent, read: want }) => {
      expect(schemaOf(conversation, part).parse(sent)).toEqual(want)
    },
  )

  it.each(golden.refused.map((row) => [JSON.stringify(row.sent), row] as const))('refuses %s', (_, { part, sent }) => {
    expect(schemaOf(conversation, part).safeParse(sent).success).toBe(false)
  })
})
