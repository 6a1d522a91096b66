import { describe, expect, it } from 'vitest'
import { GalleryUrl } from './galleries.ts'
import { WorkerSettings } from './node-agent.ts'

describe('WorkerSettings', () => {
  it('of a controller that knows no galleries name none', () => {
    expect(WorkerSettings.parse({ heartbeat_interval_ms: 5000, controllers: [] })).toMatchObject({ galleries: [], allow_source: [] })
  })
})

describe('GalleryUrl', () => {
  it.each(['https://example.com/index.yaml', 'http://10.0.0.1:8000/x', 'file:///srv/index.yaml', 'github:o/r/dir/index.yaml@main'])(
    'takes %s',
    (url) => {
      expect(GalleryUrl.safeParse(url).success).toBe(true)
    },
  )

  it.each([
    '',
    'index.yaml',
    'ftp://x/y',
    'javascript:1',
    'github:o',
    'builtin://x@sha256:1',
    'https://u:p@x/',
    'https://x/a b',
    `https://x/${'a'.repeat(2048)}`,
  ])('refuses %s', (url) => {
    expect(GalleryUrl.safeParse(url).success).toBe(false)
  })
})
