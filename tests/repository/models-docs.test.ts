// The operator's page on models says what becomes of replicas. It is checked for the words, not for the prose.
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'

const page = readFileSync(new URL('../../docs/models.md', import.meta.url), 'utf8')
const section = page.slice(page.indexOf('### How what runs changes'), page.indexOf('## State'))

it.each([
  ['what is restored without a request', /everything was stopped[^|]*\|[^|]*minimum[^|]*nobody has to ask/],
  ['that load info outlives replicas', /load info[^.]*outlives all its replicas/],
  ['the paths that leave it as it is', /exits, unloads, evictions, silent and removed nodes/],
  ['what a name without a model has', /`no load info`/],
  ['what brings nothing back', /held or deleted/],
  ['how edits and drains are done', /An edit, a drained node, another version of the backend/],
  ['what a lost node means', /a node is silent[^|]*\|[^|]*node timeout/],
  ['when the old one has to go first', /recreate/],
])('S4.13 docs/models.md explains %s', (_, words) => expect(section).toMatch(words))

it('S4.13 the architecture explains how a model changes', () => {
  const architecture = readFileSync(new URL('../../ARCHITECTURE.md', import.meta.url), 'utf8')
  const [, changes = ''] = architecture.split(/^## How a model changes$/m)
  for (const word of ['stale', 'N + 1', 'admitted', 'draining']) expect(changes.split(/^## /m)[0]).toContain(word)
})
