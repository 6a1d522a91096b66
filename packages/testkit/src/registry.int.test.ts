import { expect, it } from 'vitest'
import { startRegistry } from './registry.ts'

it('a registry serves its API on loopback and keeps nothing after it is stopped', async () => {
  const registry = await startRegistry()
  const answer = await fetch(`${registry.url}/v2/`)
  expect([answer.status, answer.headers.get('docker-distribution-api-version')]).toEqual([200, 'registry/2.0'])
  await registry.stop()
  await expect(fetch(`${registry.url}/v2/`)).rejects.toThrow('fetch failed')
})
