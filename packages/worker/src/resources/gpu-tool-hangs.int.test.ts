import { chmod, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { silentLog, systemClock } from '@muster/host'
import { makeTempDir } from '@muster/testkit'
import { expect, it } from 'vitest'
import { hostFiles } from './host-files.ts'
import { thisRuntime } from './read-machine.ts'
import { createResourceMonitor } from './resource-monitor.ts'
import { createToolRunner, startTool } from './run-tool.ts'

it('F16 a real nvidia-smi that hangs delays only its own reading', async () => {
  await using bin = await makeTempDir('bin')
  const runs = join(bin.path, 'runs')
  await writeFile(join(bin.path, 'nvidia-smi'), `#!/bin/sh\necho run >> ${runs}\ntrap '' TERM INT\nwhile :; do sleep 1000; done\n`)
  await chmod(join(bin.path, 'nvidia-smi'), 0o755)
  const ending = new AbortController()
  const run = createToolRunner({ start: startTool({ PATH: `${bin.path}:/usr/bin:/bin` }), timeoutMs: 200, clock: systemClock })
  const monitor = createResourceMonitor({
    dataDir: bin.path,
    files: hostFiles,
    run,
    runtime: thisRuntime,
    forcedCapability: null,
    clock: systemClock,
    log: silentLog,
    signal: ending.signal,
  })
  await expect.poll(() => monitor.resources().available_ram).toBeGreaterThan(0)
  expect(monitor.resources()).toMatchObject({ total_disk: expect.any(Number), total_vram: null })
  await monitor.ready
  expect(monitor.resources().total_vram).toBeNull()
  expect(await readFile(runs, 'utf8')).toBe('run\n')
  ending.abort()
})
