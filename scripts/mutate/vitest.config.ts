// The tests that `npm run mutate` runs against each change: those of one part, chosen by scripts/mutate/parts.ts.
import { defineConfig } from 'vitest/config'
import { findPart } from './parts.ts'

const part = findPart(process.env['MUTATE_PART'])

export default defineConfig({
  test: {
    include: [...part.tests],
    exclude: ['**/*.sim.test.ts', ...(part.needsServers ? [] : ['**/*.int.test.{ts,tsx}'])],
    testTimeout: part.needsServers ? 240_000 : 60_000,
    ...(part.needsServers ? { globalSetup: 'packages/testkit/src/global-setup.ts' } : {}),
  },
})
