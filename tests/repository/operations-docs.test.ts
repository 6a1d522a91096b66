// The operator's page on operations says what an operator has to know. It is checked for the words, not for the prose.
import { readFileSync } from 'node:fs'
import { OperationNodeStatus, OperationState } from '@muster/protocol'
import { describe, expect, it } from 'vitest'

const page = readFileSync(new URL('../../docs/operations.md', import.meta.url), 'utf8')

describe('docs/operations.md', () => {
  it.each(['--backend-install-timeout', '--backend-upgrade-timeout', '--op-max-attempts', '--op-stall-timeout', '--history-retention'])(
    'S2.41 explains the setting %s',
    (setting) => expect(page).toContain(setting),
  )
  it.each([...OperationNodeStatus.options, ...OperationState.options])('S2.41 explains %s', (word) => {
    expect(page).toMatch(new RegExp(`\\b${word}\\b`))
  })
  it('S2.41 explains a silent old worker and the remedy for a dead one', () => {
    expect(page).toMatch(/old worker/i)
    expect(page).toMatch(/silent/i)
    expect(page).toMatch(/dead/)
    expect(page).toContain('muster ops retry')
  })
  it('S2.41 names no internals', () => {
    expect(page).not.toMatch(/operation_nodes|intent_events|skip locked|\bepoch\b|revision/i)
  })
})
