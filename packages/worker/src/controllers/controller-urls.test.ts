import { describe, expect, it } from 'vitest'
import { controllerOrigin, knownControllers } from './controller-urls.ts'

describe('controllerOrigin', () => {
  it.each([
    ['http://c:8080', 'http://c:8080'],
    ['https://C.example/', 'https://c.example'],
    ['http://[::1]:8080', 'http://[::1]:8080'],
    ['http://c/prefix', null],
    ['http://c?x=1', null],
    ['http://user:secret@c', null],
    ['nats://c:4222', null],
    ['c:8080', null],
    ['', null],
  ])('of %j is %j', (text, want) => {
    expect(controllerOrigin(text)).toBe(want)
  })
})

describe('knownControllers', () => {
  it('begins with the one that was named, each once', () => {
    expect(knownControllers('http://a:1', ['http://b:2', 'http://a:1', 'http://b:2/'])).toEqual(['http://a:1', 'http://b:2'])
  })
  it.each(['http://127.0.0.1:8080', 'http://localhost:8080', 'http://[::1]:8080', 'http://0.0.0.0:8080'])(
    'leaves out %s for those who joined from afar',
    (url) => {
      expect(knownControllers('http://10.0.0.1:8080', [url])).toEqual(['http://10.0.0.1:8080'])
    },
  )
  it('keeps loopback addresses for workers that joined through one', () => {
    expect(knownControllers('http://127.0.0.1:1', ['http://localhost:2'])).toEqual(['http://127.0.0.1:1', 'http://localhost:2'])
  })
  it('leaves out values that are not URLs', () => {
    expect(knownControllers('http://a:1', ['', 'c:8080', 'file:///etc'])).toEqual(['http://a:1'])
  })
})
