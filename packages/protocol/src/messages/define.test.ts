import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { NodeId, OperationId } from '../ids.ts'
import { messageCatalogue } from './catalogue.ts'
import { formatSubject, parseSubject } from './define.ts'
import { heartbeat, progress } from './node.ts'

const node = NodeId.parse('n-1')
const op = OperationId.parse('op-1')
const hostileIds = ['', '.', 'a.b', '*', '>', 'a.>', 'a b', ' ', 'a\tb', 'a\n', 'A', 'ä', '\u0000', 'a'.repeat(64), 'a'.repeat(300)]

describe('formatSubject', () => {
  it.each(Object.entries(messageCatalogue))('%s names its node in the second token', (_, conversation) => {
    expect(formatSubject(conversation, { node, op })).toMatch(/^nodes\.n-1\.[a-z]/)
  })

  it('S2.17 progress of two operations never shares a subject', () => {
    expect(formatSubject(progress, { node, op })).toBe('nodes.n-1.backend.install.op-1.progress')
    expect(formatSubject(progress, { node, op: OperationId.parse('op-2') })).toBe('nodes.n-1.backend.install.op-2.progress')
  })

  it('matches any node only for a wildcard', () => {
    expect(formatSubject(heartbeat, { node: '*' })).toBe('nodes.*.heartbeat')
    expect(formatSubject(progress, { node: '*', op: '*' })).toBe('nodes.*.backend.install.*.progress')
  })

  it.each(hostileIds.filter((id) => id !== '*'))('C14 refuses the id %j', (id) => {
    expect(() => formatSubject(heartbeat, { node: id as NodeId })).toThrow('is not a valid node')
  })

  it('C14 refuses a parameter that is missing', () => {
    expect(() => formatSubject(progress, { node } as never)).toThrow('is not a valid op')
  })

  it('C14 whatever the ids are, the subject keeps its shape or is refused', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 80 }), fc.string({ maxLength: 80 }), (first, second) => {
        const to = { node: first as NodeId, op: second as OperationId }
        if (first === '*' || second === '*') return
        let subject: string
        try {
          subject = formatSubject(progress, to)
        } catch {
          return
        }
        expect(parseSubject(progress, subject)).toEqual(to)
        expect(subject).not.toMatch(/[\s*>]/)
      }),
    )
  })
})

describe('parseSubject', () => {
  it('gives the parameters back', () => {
    expect(parseSubject(progress, 'nodes.n-1.backend.install.op-1.progress')).toEqual({ node: 'n-1', op: 'op-1' })
  })

  it.each(hostileIds)('C14 refuses the id %j in a subject', (id) => {
    expect(parseSubject(heartbeat, `nodes.${id}.heartbeat`)).toBeNull()
  })

  it.each([
    'nodes.n-1',
    'nodes.n-1.heartbeat.more',
    'nodes.n-1.Heartbeat',
    'nodes.n-1.events',
    'node.n-1.heartbeat',
    'xnodes.n-1.heartbeat',
    'nodes..heartbeat',
    'nodes.{node}.heartbeat',
    '',
    'heartbeat',
  ])('refuses %j, which is another subject', (subject) => {
    expect(parseSubject(heartbeat, subject)).toBeNull()
  })

  it('no two conversations share a subject', () => {
    const subjects = Object.values(messageCatalogue).map((conversation) => formatSubject(conversation, { node, op }))
    for (const subject of subjects) {
      const readers = Object.values(messageCatalogue).filter((conversation) => parseSubject(conversation, subject) !== null)
      expect(readers, subject).toHaveLength(1)
    }
  })
})
