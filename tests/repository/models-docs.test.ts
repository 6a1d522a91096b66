// The operator's page on models explains the life of replicas. The test checks the terms, not the prose.
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'

const page = readFileSync(new URL('../../docs/models.md', import.meta.url), 'utf8')
const section = page.slice(page.indexOf('### Replacing replicas'), page.indexOf('## State'))

it.each([
  ['what is restored without a request', /everything was stopped[^|]*\|[^|]*minimum[^|]*starts again with the controllers/],
  ['that load info outlives replicas', /load info[^.]*outlives all replicas/],
  ['the paths that leave it unchanged', /exits, unloads, evictions, silent and removed nodes/],
  ['what a name without a model has', /`no load info`/],
  ['what brings nothing back', /Unloaded and deleted models do not/],
  ['how edits and drains are done', /An edit, a drained node and a new version of the backend/],
  ['what a lost node means', /a node is silent[^|]*\|[^|]*node timeout/],
  ['when the old one has to go first', /recreate/],
])('S4.13 docs/models.md explains %s', (_, words) => expect(section).toMatch(words))

it('S4.13 the architecture explains how a model changes', () => {
  const architecture = readFileSync(new URL('../../ARCHITECTURE.md', import.meta.url), 'utf8')
  const [, changes = ''] = architecture.split(/^## How a model changes$/m)
  for (const word of ['stale', 'N + 1', 'admitted', 'draining']) expect(changes.split(/^## /m)[0]).toContain(word)
})
