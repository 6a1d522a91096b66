// A backend whose files were removed or changed on the disk: an install repairs it, and the inventory reports it until then.
import { readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { silentLog, systemClock } from '@muster/host'
import { type Digest, failureOf, type InstalledBackend } from '@muster/protocol'
import { makeImage, tar, waitFor, type HostileRegistry } from '@muster/testkit'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  installContext,
  installerFrom,
  ownPlatform,
  startRegistryInstaller,
  type RegistryInstaller,
} from '../../test/registry-installer.ts'
import { never, runSh, type TestStore } from '../../test/test-store.ts'
import type { Installer } from '../operations/installer.ts'
import { BackendCommand } from '../operations/journal.ts'
import { perform } from '../operations/run-operation.ts'
import { createTreeKeeper } from './tree-keeper.ts'

let world: RegistryInstaller
let registry: HostileRegistry
let opened: TestStore
let installer: Installer
beforeEach(async () => {
  world = await startRegistryInstaller()
  ;({ registry, opened, installer } = world)
})
afterEach(() => world[Symbol.asyncDispose]())

function publish(text: string): Digest {
  const image = makeImage({
    layers: [tar([runSh, { path: 'text', data: text }])],
    platform: { os: ownPlatform.os, architecture: ownPlatform.arch },
  })
  registry.addImage('a/b', image, '1')
  return image.manifest.digest
}

async function carryOut(order: Readonly<Record<string, unknown>> = {}): Promise<{ digest: string | undefined; requests: number }> {
  const before = registry.requests.length
  const parsed = BackendCommand.parse({ kind: 'install', backend: 'b', uri: `${registry.host}/a/b:1`, ...order })
  const { digest } = await perform(parsed, { installer, context: installContext() })
  return { digest, requests: registry.requests.length - before }
}
const listed = async (from = installer): Promise<InstalledBackend | undefined> => (await from.inventory())[0]
const blobs = (): string => join(opened.root, 'blobs/sha256')
const removeBlobs = async (): Promise<void> => {
  for (const name of await readdir(blobs())) await rm(join(blobs(), name))
}

const damages: readonly (readonly [string, (tree: string) => Promise<unknown>])[] = [
  ['a file is deleted', (tree) => rm(join(tree, 'text'))],
  ['a file is changed', (tree) => writeFile(join(tree, 'text'), 'eno')],
  ['a file is cut', (tree) => truncate(join(tree, 'text'), 1)],
  ['all files are deleted', (tree) => rm(tree, { recursive: true })],
]

describe.each(damages)('an install of what is already there, when %s', (_, damage) => {
  it.each([
    ['without a digest', () => ({})],
    ['with its digest', (digest: Digest) => ({ digest, exact: true })],
    ['with the digest of a newer version that is not required', () => ({ digest: publish('two') })],
  ])('S3.16 repairs it from verified blobs, without a request (%s)', async (...[, order]) => {
    const digest = publish('one')
    await carryOut()
    await damage(opened.store.treePath(digest))
    expect(await carryOut(order(digest))).toEqual({ digest, requests: 0 })
    expect(await readFile(join(opened.store.treePath(digest), 'text'), 'utf8')).toBe('one')
    expect(await listed()).not.toHaveProperty('damaged')
  })

  it('S3.16 fetches it again when its blobs are gone too', async () => {
    const digest = publish('one')
    await carryOut()
    await damage(opened.store.treePath(digest))
    await removeBlobs()
    expect(await carryOut({ digest, exact: true })).toMatchObject({ digest })
    expect(await opened.store.verify(digest, { signal: never })).toBe('intact')
  })

  it('fails while the content cannot be had, and the inventory reports the damage, also after a restart', async () => {
    const digest = publish('one')
    await carryOut()
    await damage(opened.store.treePath(digest))
    await removeBlobs()
    registry.on(`/v2/a/b/manifests/${digest}`, { do: 'answer', status: 404 })
    const failure = failureOf(await carryOut({ digest, exact: true }).catch((error: unknown) => error))
    expect(failure).toMatchObject({ code: 'not_found' })
    expect(await listed()).toMatchObject({ name: 'b', digest, damaged: true })
    const { store } = await opened.reopen()
    expect(await listed(installerFrom(registry, { store }))).toMatchObject({ name: 'b', digest, damaged: true })
  })
})

it('S3.16 an install verifies a tree that exists without being active', async () => {
  const digest = publish('one')
  await carryOut()
  await opened.store.deactivate('b' as never)
  await writeFile(join(opened.store.treePath(digest), 'text'), 'eno')
  expect(await carryOut()).toMatchObject({ digest })
  expect(await opened.store.verify(digest, { signal: never })).toBe('intact')
})

it('a damaged version whose source has other content now is replaced by the content that the command names', async () => {
  const digest = publish('one')
  await carryOut()
  await rm(join(opened.store.treePath(digest), 'text'))
  await removeBlobs()
  registry.on(`/v2/a/b/manifests/${digest}`, { do: 'answer', status: 404 })
  const next = publish('two')
  expect(await carryOut()).toMatchObject({ digest: next })
  expect(await listed()).toMatchObject({ digest: next })
})

it('a tree that is gone is listed as damaged at once, and a deleted file at the next inspection', async () => {
  const digest = publish('one')
  await carryOut()
  await rm(join(opened.store.treePath(digest), 'text'))
  expect(await opened.store.inspect(digest, { signal: never })).toBe('damaged')
  expect(await listed()).toMatchObject({ damaged: true })
  await carryOut()
  expect(await listed()).not.toHaveProperty('damaged')
  await rm(join(opened.store.treePath(digest), '..'), { recursive: true })
  expect(await listed()).toMatchObject({ name: 'b', digest, damaged: true })
})

describe('the tree keeper', () => {
  it('repairs damaged trees from content on this machine, tries once per damage, and reports each change', async () => {
    const digest = publish('one')
    await carryOut()
    const off = new AbortController()
    let changes = 0
    let attempts = 0
    let isRepairable = true
    const repair = async (): Promise<boolean> => {
      attempts += 1
      if (isRepairable) await installer.repair('b' as never, installContext())
      return isRepairable
    }
    const keeper = createTreeKeeper({ store: opened.store, repair, onChanged: () => (changes += 1), clock: systemClock, log: silentLog })
    await rm(join(opened.store.treePath(digest), 'text'))
    const running = keeper.run(off.signal)
    keeper.wake()
    await waitFor(() => attempts === 1 && changes === 2, { what: 'the damage and its repair to be reported' })
    expect(await opened.store.verify(digest, { signal: never })).toBe('intact')
    isRepairable = false
    await rm(join(opened.store.treePath(digest), 'text'))
    keeper.wake()
    await waitFor(() => attempts === 2, { what: 'another attempt' })
    expect(await listed()).toMatchObject({ damaged: true })
    off.abort()
    await running
    expect(changes).toBe(3)
  })
})
