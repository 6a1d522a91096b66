import { backendInstall, backendStop, CommandReply, FleetError, heartbeat, InstalledBackend } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { decode, decodeAnswer, encode, encodeFailure, maxPayloadBytes } from './codec.ts'

const answer = (text: string | null, kind: 'message' | 'failure' | 'no_responders' = 'message') => ({
  subject: 's',
  text,
  reply: null,
  kind,
})

describe('encode', () => {
  it('leaves out fields that are not in the schema', () => {
    expect(encode(backendStop.message, { backend: 'llama', password: 'secret' }, 's')).toBe('{"backend":"llama"}')
  })

  it('counts bytes, not characters', () => {
    const config = (text: string) => ({ backend: 'b', backend_galleries: text })
    const wide = '€'.repeat(200_000)
    expect(Buffer.byteLength(encode(backendInstall.request, config(wide), 's'))).toBeLessThan(maxPayloadBytes)
    const galleries = Array.from({ length: 4096 }, () => ({ name: 'b', gallery_url: '€'.repeat(100) }))
    expect(() => encode(InstalledBackend.array(), galleries, 's')).toThrow(expect.objectContaining({ code: 'too_large' }))
  })

  it('names the wrong field and the subject', () => {
    expect(() => encode(heartbeat.message, { node_id: 'N' }, 'nodes.n.heartbeat')).toThrow(/nodes\.n\.heartbeat: node_id/)
  })
})

describe('decode', () => {
  it.each([
    ['nothing', '', { ok: true, value: {} }],
    ['null', 'null', { ok: true, value: {} }],
    ['no UTF-8', null, { ok: false, reason: 'not UTF-8' }],
    ['no JSON', '{"backend":', { ok: false, reason: 'not JSON' }],
    ['a list', '[]', { ok: false, reason: expect.stringContaining('the body') }],
    ['a wrong field', '{"force":1}', { ok: false, reason: expect.stringContaining('force') }],
  ])('reads %s', (_, text, want) => {
    expect(decode(backendStop.message, text)).toEqual(want)
  })
})

describe('decodeAnswer', () => {
  const failure = { code: 'disk_full', retry: 'backoff', message: 'no room' } as const

  it('throws the failure of the handler as it was', () => {
    expect(() => decodeAnswer(CommandReply, 's', answer(encodeFailure(failure), 'failure'))).toThrow(
      expect.objectContaining({ failure, constructor: FleetError }),
    )
  })

  it('gives callers that look at the body alone a refusal they understand', () => {
    expect(decodeAnswer(CommandReply, 's', answer(encodeFailure(failure)))).toEqual({ accepted: false, failure })
    expect(JSON.parse(encodeFailure(failure))).toMatchObject({ success: false, error: 'no room' })
  })

  it('keeps a failure with an endless message readable', () => {
    const text = encodeFailure({ ...failure, message: '\u0000'.repeat(100_000) })
    expect(Buffer.byteLength(text)).toBeLessThan(maxPayloadBytes)
    expect(() => decodeAnswer(CommandReply, 's', answer(text, 'failure'))).toThrow(FleetError)
  })

  it.each([
    ['no responders', answer('', 'no_responders'), 'no_responders'],
    ['a failure without one', answer('{"success":false}', 'failure'), 'invalid'],
    ['a failure that is no JSON', answer('oops', 'failure'), 'invalid'],
    ['a reply of another shape', answer('{"ok":1}'), 'invalid'],
  ])('throws on %s', (_, packet, code) => {
    expect(() => decodeAnswer(CommandReply, 's', packet)).toThrow(expect.objectContaining({ code }))
  })
})
