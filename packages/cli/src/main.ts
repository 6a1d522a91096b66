// The entry of `muster`. Node keeps what it compiled beside the code (whoever may write there may
// write the code too); without that, most of a short command's time is spent on reading TypeScript:
// 0.65 s of CPU against 0.27 s. Where the place is not writable, it goes without.
import { enableCompileCache } from 'node:module'
import { fileURLToPath } from 'node:url'

enableCompileCache(fileURLToPath(new URL('../../../node_modules/.cache/muster', import.meta.url)))
const { run } = await import('./run.ts')
await run(process.env)
