import { readFile } from 'node:fs/promises'
import { describe, expect, it } from 'vitest'
import { renderSettingsDoc, settingsPage } from './settings-doc.ts'

describe('docs/settings.md', () => {
  it('matches the definitions (otherwise run: node_modules/.bin/node scripts/settings-doc.ts)', async () => {
    const page = await readFile(settingsPage, 'utf8')
    expect(await renderSettingsDoc(page)).toBe(page)
  })
})
