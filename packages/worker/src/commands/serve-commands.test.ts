// How commands are laid out: one file per subject, put on a list in one place.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { messageCatalogue, nodeTopics } from '@muster/protocol'
import { expect, it } from 'vitest'

const folder = import.meta.dirname
const handlers = readdirSync(folder).filter(
  (file) => !file.endsWith('.test.ts') && !['command.ts', 'answer-order.ts', 'install-and-start.ts', 'serve-commands.ts'].includes(file),
)

it('S1.22 every subject that workers serve has a file of its own, named after it', () => {
  const served = Object.entries(messageCatalogue)
    .filter(([, conversation]) => !nodeTopics.some((spoken) => spoken === conversation))
    .map(([name]) => `${name.replace('.', '-')}.ts`)
  expect(handlers.toSorted()).toEqual(served.toSorted())
})

it('S1.22 a handler is short, and serves one subject', () => {
  for (const file of handlers) {
    const text = readFileSync(join(folder, file), 'utf8')
    expect(text.match(/bus\.(?:serve|subscribe)\(/g), file).toHaveLength(1)
    expect(text.split('\n').length, file).toBeLessThan(40)
  }
})
