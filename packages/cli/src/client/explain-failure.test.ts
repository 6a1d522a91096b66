import { Secret } from '@muster/host'
import { describe, expect, it } from 'vitest'
import { explainRefusal, explainUnreachable, type Refusal } from './explain-failure.ts'
import type { Target } from './target.ts'

const target = (some: Partial<Target> = {}): Target => ({
  url: new URL('http://h:1'),
  urlFrom: '/d/endpoint',
  key: new Secret('canary'),
  keyFrom: '/d/admin.key',
  isKeyWithheld: false,
  ...some,
})
const refusal = (some: Partial<Refusal> = {}): Refusal => ({
  status: 404,
  contentType: 'application/json',
  location: null,
  text: '',
  ...some,
})
const failed = (code: string): Error => Object.assign(new Error(`connect ${code}`), { code })
const envelope = (code: string, message: string): string => JSON.stringify({ error: { code, message } })

describe('explainUnreachable', () => {
  it.each<[string, unknown, RegExp, RegExp]>([
    ['a closed port', failed('ECONNREFUSED'), /nothing listens at http:\/\/h:1 \(\/d\/endpoint\)/, /muster up/],
    [
      'a closed port on all addresses of a host',
      new AggregateError([failed('ECONNREFUSED'), failed('ECONNREFUSED')]),
      /nothing listens/,
      /muster up/,
    ],
    ['an unknown host', failed('ENOTFOUND'), /host name .* is unknown/, /--url/],
    ['a server that does not answer', new DOMException('x', 'TimeoutError'), /within 30 s/, /muster doctor/],
    ['anything else', failed('ECONNRESET'), /cannot reach .*ECONNRESET/, /muster doctor/],
  ])('names the address, where it came from and what to do for %s', (_, error, message, hint) => {
    const explained = explainUnreachable(error, target(), 30_000)
    expect(explained.message).toMatch(message)
    expect(explained.hint).toMatch(hint)
    expect(explained.exitCode).toBe(1)
  })
})

describe('explainRefusal', () => {
  it('shows the sentence and the code of the server', () =>
    expect(explainRefusal(refusal({ text: envelope('not_found', 'no node has this id') }), target())).toMatchObject({
      message: 'no node has this id',
      code: 'not_found',
      status: 404,
      hint: null,
    }))

  it.each([
    ['no key was sent', 401, null, /set MUSTER_ADMIN_KEY/],
    ['the key is unknown', 401, new Secret('canary'), /came from \/d\/admin.key/],
    ['the key may not', 403, new Secret('canary'), /came from \/d\/admin.key/],
  ])('says how to give a key when %s', (_, status, key, hint) => {
    const code = status === 401 ? 'unauthorized' : 'forbidden'
    const explained = explainRefusal(refusal({ status, text: envelope(code, 'no') }), target({ key }))
    expect(explained.hint).toMatch(hint)
    expect(`${explained.message}${explained.hint}`).not.toContain('canary')
  })

  it('says nothing about the key when a source is refused', () => {
    const text = envelope('source_forbidden', '10.0.0.5 is a private address; to allow it: --allow-source 10.0.0.5')
    expect(explainRefusal(refusal({ status: 403, text }), target()).hint).toBeNull()
  })

  it('explains that another program answers', () =>
    expect(explainRefusal(refusal({ contentType: 'text/html', text: '<html>' }), target()).message).toBe(
      'the server at http://h:1 (/d/endpoint) is not a Muster controller: HTTP 404, text/html',
    ))

  it('names the target of a redirect and does not follow it', () =>
    expect(explainRefusal(refusal({ status: 301, location: 'https://h/' }), target()).message).toContain('redirects to https://h/'))

  it('passes on nothing that a terminal obeys', () =>
    expect(explainRefusal(refusal({ text: envelope('x', 'node \u001b[2Jevil') }), target()).message).toBe('node evil'))
})
