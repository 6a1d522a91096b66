// Builds the web page beforehand, as controllers do when they start (.cache/web).
import { join } from 'node:path'
import { buildPage } from '../packages/controller/src/page/page-build.ts'

const root = join(import.meta.dirname, '..')
const from = performance.now()
const directory = await buildPage({ root, caches: [join(root, '.cache', 'web')] }, new AbortController().signal)
console.log(`${directory.slice(root.length + 1)} after ${Math.round(performance.now() - from)} ms`)
