import { getEventListeners } from 'node:events'
import { expect, it } from 'vitest'
import { abortable } from './deadline.ts'

const never = new Promise<never>(() => undefined)

it('returns the awaited value, and stops listening', async () => {
  const { signal } = new AbortController()
  expect(await abortable(Promise.resolve('there'), signal)).toBe('there')
  await expect(abortable(Promise.reject(new Error('broken')), signal)).rejects.toThrow('broken')
  expect(getEventListeners(signal, 'abort')).toHaveLength(0)
})

it('ends with the reason of the signal, also of one that was aborted before', async () => {
  const stopping = new AbortController()
  const waiting = abortable(never, stopping.signal)
  stopping.abort(new Error('not wanted'))
  await expect(waiting).rejects.toThrow('not wanted')
  await expect(abortable(never, stopping.signal)).rejects.toThrow('not wanted')
  expect(await abortable(Promise.resolve('there'), stopping.signal)).toBe('there')
  expect(getEventListeners(stopping.signal, 'abort')).toHaveLength(0)
})
