import { readFile } from 'node:fs/promises'
import { describe, expect, it } from 'vitest'
import { apiPage, renderApiDoc } from './api-doc.ts'

describe('docs/api.md', () => {
  it('matches the routes and metrics (otherwise run: node_modules/.bin/node scripts/api-doc.ts)', async () => {
    const page = await readFile(apiPage, 'utf8')
    expect(await renderApiDoc(page)).toBe(page)
  })
})
