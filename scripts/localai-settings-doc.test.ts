import { readFile } from 'node:fs/promises'
import { describe, expect, it } from 'vitest'
import { localAiSettingsPage, renderLocalAiSettings } from './localai-settings-doc.ts'

describe('docs/localai-settings.md', () => {
  it('matches the table (otherwise run: node_modules/.bin/node scripts/localai-settings-doc.ts)', async () => {
    const page = await readFile(localAiSettingsPage, 'utf8')
    expect(renderLocalAiSettings(page)).toBe(page)
  })
})
