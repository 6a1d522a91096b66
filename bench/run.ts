// `npm run bench` runs every benchmark, one after the other; `npm run bench -- nodes` runs one.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'

const all = ['start', 'nodes', 'install', 'fanout', 'queue', 'proxy', 'affinity', 'placement', 'web']
const wanted = process.argv.slice(2)
const unknown = wanted.find((name) => !all.includes(name))
if (unknown !== undefined) {
  console.error(`there is no benchmark "${unknown}"; there are ${all.join(', ')}`)
  process.exit(2)
}
for (const name of wanted.length === 0 ? all : wanted) {
  console.log(`\n${name}`)
  const { status } = spawnSync(process.execPath, [join(import.meta.dirname, `${name}.ts`)], { stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}
