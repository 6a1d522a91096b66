import { messageCatalogue, nodeTopics } from '@muster/protocol'
import { expect, it } from 'vitest'
import { commandHandlers } from './serve-commands.ts'

it('S1.22 every subject that workers serve has one handler, named after it', () => {
  const served = Object.entries(messageCatalogue)
    .filter(([, conversation]) => !nodeTopics.some((published) => published === conversation))
    .map(([name]) => name)
  expect(Object.keys(commandHandlers).toSorted()).toEqual(served.toSorted())
})
