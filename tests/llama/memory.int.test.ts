// The estimate of a replica's memory, compared with the peak of the real process under load.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { MemoryConfig, memoryOf } from '../../packages/controller/src/placement/memory.pure.ts'
import { readGgufFacts } from '../../packages/source/src/index.ts'
import { createProcesses } from '../../packages/testkit/src/index.ts'
import { repository, startLlama, untilLoaded } from './server.ts'

const processes = createProcesses()
afterEach(() => processes.stopAll())

/** The most memory that the process ever had resident. */
async function peakOf(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) * 1_024
}

async function estimateOf(context: number, parallel: number): Promise<number> {
  const bytes = await readFile(join(repository, 'models/tiny/tiny.gguf'))
  const reading = readGgufFacts(bytes)
  const facts = reading.kind === 'facts' ? reading.facts : null
  const files = [{ uri: 'https://example.com/tiny.gguf', filename: 'tiny.gguf' }]
  const config = MemoryConfig.parse({ backend: 'llama', context_size: context, options: { parallel }, files })
  return memoryOf(config, () => ({ size: bytes.length, facts })).cpu.ram
}

it.each([
  [65_536, 8],
  [8_192, 4],
  [512, 1],
])('a context of %i tokens with %i slots is estimated within a quarter of what the process uses', async (context, parallel) => {
  const llama = await untilLoaded(await startLlama(processes, { options: { parallel }, env: { MUSTER_CONTEXT_SIZE: String(context) } }))
  const content = 'word '.repeat(Math.min(300, context / 4))
  const asked = Array.from({ length: parallel }, () =>
    llama.openai.chat.completions.create({ model: 'tiny', messages: [{ role: 'user', content }], max_tokens: 4 }),
  )
  await Promise.all(asked)
  const [peak, estimate] = [await peakOf(llama.process.pid), await estimateOf(context, parallel)]
  expect(estimate / peak).toBeGreaterThan(0.75)
  expect(estimate / peak).toBeLessThan(1.25)
})
