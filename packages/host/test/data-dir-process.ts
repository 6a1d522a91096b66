// A process that takes and gives back a data directory on command: lines on stdin, answers on stdout.
import { createInterface } from 'node:readline'
import { openDataDir, type DataDir } from '../src/data-dir.ts'

const [path = '', role = ''] = process.argv.slice(2)
const say = (answer: object): boolean => process.stdout.write(`${JSON.stringify(answer)}\n`)
let held: DataDir | null = null

say({ ready: true })
for await (const line of createInterface({ input: process.stdin })) {
  if (line === 'release') {
    await held?.release()
    held = null
    say({ released: true })
  } else {
    held = await openDataDir({ path, role }).catch((error: Error) => (say({ held: false, message: error.message }), null))
    if (held !== null) say({ held: true })
  }
}
