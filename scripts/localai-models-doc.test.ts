import { readFile } from 'node:fs/promises'
import { describe, expect, it } from 'vitest'
import { localAiModelsPage, renderLocalAiModelsDoc } from './localai-models-doc.ts'

describe('docs/localai-models.md', () => {
  it('matches the definitions (otherwise run: node_modules/.bin/node scripts/localai-models-doc.ts)', async () => {
    const page = await readFile(localAiModelsPage, 'utf8')
    expect(renderLocalAiModelsDoc(page)).toBe(page)
  })
})
