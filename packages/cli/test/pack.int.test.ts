// `muster pack` as somebody who made a backend uses it: to files, and to a real registry.
import { execFileSync } from 'node:child_process'
import { cp, mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { makeTempDir, startRegistry, type Registry, type TempDir } from '@muster/testkit'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { runInProcess } from './run-in-process.ts'

let registry: Registry
let temp: TempDir
let backend: string
let round = 0

beforeAll(async () => {
  registry = await startRegistry()
  temp = await makeTempDir('pack')
})
afterAll(async () => {
  await registry.stop()
  await temp.remove()
})
beforeEach(async () => {
  round += 1
  backend = join(temp.path, `backend-${round}`)
  await mkdir(join(backend, 'lib'), { recursive: true })
  await writeFile(join(backend, 'backend.json'), '{"name":"x","version":"1"}')
  await writeFile(join(backend, 'run.sh'), '#!/bin/sh\n', { mode: 0o755 })
})

const packJson = async (...args: string[]): Promise<Record<string, unknown>> => {
  const { code, stdout, stderr } = await runInProcess(['pack', backend, ...args, '-o', 'json'])
  expect(code, stderr).toBe(0)
  return JSON.parse(stdout) as Record<string, unknown>
}
const contentDigest = async (repository: string): Promise<string | null> => {
  const accept = 'application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json'
  return (await fetch(`${registry.url}/v2/${repository}/manifests/1.0`, { headers: { accept } })).headers.get('docker-content-digest')
}

describe('muster pack', () => {
  it('pushes an image, and the registry has it under the digest that was printed', async () => {
    const reference = `${registry.host}/team/engine:1.0`
    const { digest, image, pushed } = await packJson('-t', reference, '--push', '--allow-source', registry.host)
    expect([image, pushed]).toEqual([reference, true])
    expect(await contentDigest('team/engine')).toBe(digest)
  })

  it('gives a copy made elsewhere the same digest, in a directory as well as in a file', async () => {
    const first = await packJson('-t', 'x:1.0', '--out', join(temp.path, `layout-${round}`))
    const copy = join(temp.path, `copy-${round}`)
    await cp(backend, copy, { recursive: true })
    backend = copy
    const tar = join(temp.path, `image-${round}.tar`)
    const second = await packJson('-t', 'x:1.0', '--out', tar)
    expect(second['digest']).toBe(first['digest'])
    const index: unknown = JSON.parse(execFileSync('tar', ['-xOf', tar, 'index.json'], { encoding: 'utf8' }))
    expect(index).toMatchObject({ manifests: [{ digest: first['digest'], annotations: { 'org.opencontainers.image.ref.name': '1.0' } }] })
    expect((await readdir(join(temp.path, `layout-${round}`))).toSorted()).toEqual(['blobs', 'index.json', 'oci-layout'])
  })

  it('makes an index when platforms are named', async () => {
    const out = join(temp.path, `platforms-${round}`)
    const { digest } = await packJson('-t', 'x:1.0', '--out', out, '--platform', 'linux/arm64', '--platform', 'linux/amd64')
    const index: unknown = JSON.parse(await readFile(join(out, 'blobs', 'sha256', String(digest).slice('sha256:'.length)), 'utf8'))
    expect(index).toMatchObject({ manifests: [{ platform: { architecture: 'amd64' } }, { platform: { architecture: 'arm64' } }] })
  })

  it('describes the result', async () => {
    const { stdout, stderr } = await runInProcess(['pack', backend, '-t', `${registry.host}/a:1`, '--push', '--allow-source', '127.0.0.1'])
    expect(stdout).toMatch(/Digest +sha256:[0-9a-f]{64}\n/)
    expect(stdout).toMatch(/Pushed +yes/)
    expect(stderr).toContain('sent')
  })

  it('warns of a directory that is no backend', async () => {
    const empty = join(temp.path, `empty-${round}`)
    await mkdir(empty)
    const { code, stderr } = await runInProcess(['pack', empty, '-t', 'x:1', '--out', join(temp.path, `out-${round}`)])
    expect([code, stderr]).toEqual([0, expect.stringContaining('no node can start it') as string])
  })

  it.each([
    ['a link that leads out', ['-t', 'x:1', '--out', 'OUT'], { code: 1, says: 'leads out of the directory' }],
    ['nothing to do', ['-t', 'x:1'], { code: 2, says: 'give --push, --out PATH or both' }],
    ['no name', ['--push'], { code: 2, says: '--tag' }],
    ['a name that is none', ['-t', 'UPPER/x:1', '--out', 'OUT'], { code: 1, says: 'not an image reference' }],
    ['a platform that is none', ['-t', 'x:1', '--out', 'OUT', '--platform', 'linux'], { code: 2, says: 'is not os/arch' }],
    ['a registry that is not listed', ['-t', 'REGISTRY/x:1', '--push'], { code: 1, says: 'source_forbidden' }],
  ])('refuses %s', async (what, args, { code, says }) => {
    if (what === 'a link that leads out') await symlink('../../etc', join(backend, 'etc'))
    const given = args.map((arg) => arg.replace('OUT', join(temp.path, `refused-${round}`)).replace('REGISTRY', registry.host))
    const result = await runInProcess(['pack', backend, ...given])
    expect([result.code, result.stderr]).toEqual([code, expect.stringContaining(says) as string])
  })
})
