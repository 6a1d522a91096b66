import { describe, expect, it } from 'vitest'
import { routeUrl } from './define.ts'

describe('routeUrl', () => {
  it.each([
    [
      'fills in parameters, escaped',
      { base: 'http://h:1', path: '/api/nodes/:id/labels/:key', params: { id: 'n-1', key: 'a/b' } },
      'http://h:1/api/nodes/n-1/labels/a%2Fb',
    ],
    ['keeps the path of a reverse proxy', { base: 'https://h/muster/', path: '/api/nodes' }, 'https://h/muster/api/nodes'],
    ['drops a query of the base', { base: 'http://h/?x=1#y', path: '/healthz' }, 'http://h/healthz'],
    [
      'adds the query that is given',
      { base: 'http://h', path: '/api/x', query: { a: 'b c', d: undefined, e: 1 } },
      'http://h/api/x?a=b+c&e=1',
    ],
    [
      'writes a list with commas, and yes and no as words',
      { base: 'http://h', path: '/api/x', query: { node: ['a', 'b'], force: true } },
      'http://h/api/x?node=a%2Cb&force=true',
    ],
    [
      'lets no parameter climb out of its place',
      { base: 'http://h', path: '/api/nodes/:id', params: { id: '../keys' } },
      'http://h/api/nodes/..%2Fkeys',
    ],
  ])('%s', (_, { base, path, ...input }, want) => expect(routeUrl(new URL(base), { path }, input).href).toBe(want))

  it('throws for a parameter that is missing: that is a bug', () =>
    expect(() => routeUrl(new URL('http://h'), { path: '/api/nodes/:id' }, {})).toThrow('id'))
})
