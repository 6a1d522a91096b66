import { execFileSync } from 'node:child_process'
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { BackendName, Digest, failureOf } from '@muster/protocol'
import { layerOf, makeImage, makeTempDir, startHostileRegistry, tar, type TempDir } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { installContext, installerFrom, ownPlatform } from '../../test/registry-installer.ts'
import { backendLayer, makeTestStore, never, runSh, streamOf, treeOf } from '../../test/test-store.ts'
import { unmount } from '../../test/unmount.ts'

const mb = 1024 ** 2
const run = (program: string, ...args: string[]): Buffer => execFileSync(program, args, { stdio: 'pipe' })
const big = layerOf(tar([runSh, { path: 'zeros', data: Buffer.alloc(30 * mb) }]), 'gzip')
const wide = layerOf(tar([{ path: 'wide', data: Buffer.alloc(20 * mb, 1) }]), 'none')

describe('on a disk of 24 MB', () => {
  let temp: TempDir
  let mountFailure: string | null = null
  beforeAll(async () => {
    temp = await makeTempDir('tmpfs')
    try {
      run('mount', '-t', 'tmpfs', '-o', 'size=24m', 'tmpfs', temp.path)
    } catch (error) {
      mountFailure = `no tmpfs can be mounted here: ${String(error)}`
    }
  })
  afterAll(async () => {
    if (mountFailure === null) await unmount(temp.path)
    await temp.remove()
  })

  it('E4 full while unpacking: disk_full, the partial tree is removed, verified layers and other backends stay', async ({ skip }) => {
    if (mountFailure !== null) skip(mountFailure)
    await using tested = await makeTestStore({ root: join(temp.path, 'unpack') })
    const other = [backendLayer('other')]
    await tested.install(other)
    const failure = failureOf(await tested.install([big]).catch((error: unknown) => error))
    expect(failure).toMatchObject({ code: 'disk_full', retry: 'backoff' })
    expect(await readdir(join(tested.root, 'staging'))).toEqual([])
    expect(await tested.store.hasBlob(Digest.parse(big.digest))).toBe(true)
    expect(await tested.store.verify(treeOf(other), { signal: never })).toBe('intact')
    expect(await tested.store.freeBytes()).toBeGreaterThan(20 * mb)
    await rm(tested.root, { recursive: true })
  })

  it('E4 full within a layer: disk_full, its bytes are removed, and the install succeeds once there is space', async ({ skip }) => {
    if (mountFailure !== null) skip(mountFailure)
    await using tested = await makeTestStore({ root: join(temp.path, 'layer') })
    const digest = Digest.parse(wide.digest)
    const fetch = (onBytes?: () => void): Promise<void> =>
      tested.store.fetchBlob(
        { digest, size: null, open: async (offset) => ({ stream: streamOf(wide.bytes, offset), offset }) },
        { signal: never, ...(onBytes === undefined ? {} : { onBytes }) },
      )
    const ballast = join(temp.path, 'ballast')
    await writeFile(ballast, Buffer.alloc(12 * mb))
    expect(failureOf(await fetch().catch((error: unknown) => error))).toMatchObject({ code: 'disk_full', retry: 'backoff' })
    expect(await tested.store.incomingSize(digest)).toBe(0)
    await rm(ballast)
    await fetch()
    expect(await tested.store.hasBlob(digest)).toBe(true)
    await rm(tested.root, { recursive: true })
  })

  it('E4 without a single free byte at the start of an install: disk_full in plain words, and the next try succeeds', async ({ skip }) => {
    if (mountFailure !== null) skip(mountFailure)
    await using tested = await makeTestStore({ root: join(temp.path, 'start') })
    const registry = await startHostileRegistry()
    const platform = { os: ownPlatform.os, architecture: ownPlatform.arch }
    registry.addImage('a/b', makeImage({ layers: [tar([runSh])], platform }), '1')
    const installer = installerFrom(registry, { store: tested.store })
    const install = () =>
      installer.install({ backend: BackendName.parse('b'), mode: 'install', uri: `${registry.host}/a/b:1` }, installContext())
    const ballast = join(temp.path, 'ballast')
    await writeFile(ballast, Buffer.alloc(25 * mb)).catch(() => undefined)
    const failure = failureOf(await install().catch((error: unknown) => error))
    expect(failure).toMatchObject({
      code: 'disk_full',
      retry: 'backoff',
      message: expect.stringMatching(/disk of the data directory is full/),
    })
    await rm(ballast)
    expect(await install()).toMatchObject({ digest: expect.stringMatching(/^sha256:/) })
    await registry.stop()
    await rm(tested.root, { recursive: true })
  })

  it('E4 too full to start: disk_full before anything is requested', async ({ skip }) => {
    if (mountFailure !== null) skip(mountFailure)
    await mkdir(join(temp.path, 'before'))
    await using tested = await makeTestStore({ root: join(temp.path, 'before'), keepFreeBytes: 16 * mb })
    const open = async (): Promise<never> => {
      throw new Error('asked')
    }
    const fetching = tested.store.fetchBlob({ digest: Digest.parse(wide.digest), size: wide.size, open }, { signal: never })
    expect(failureOf(await fetching.catch((error: unknown) => error))).toMatchObject({ code: 'disk_full', retry: 'backoff' })
  })
})
