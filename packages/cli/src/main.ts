// The entry of `muster`. Node caches compiled code beside the sources, which halves the CPU time of a short command.
// Without write access there, commands run uncached.
import { enableCompileCache } from 'node:module'
import { fileURLToPath } from 'node:url'

enableCompileCache(fileURLToPath(new URL('../../../node_modules/.cache/muster', import.meta.url)))
const { run } = await import('./run.ts')
await run(process.env)
