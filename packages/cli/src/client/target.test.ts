import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { CliError } from '../cli-error.ts'
import { resolveTarget, type TargetOptions } from './target.ts'

let dataDir: string
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'muster-target-'))
})
afterEach(() => rmSync(dataDir, { recursive: true }))

const resolve = (some: Partial<TargetOptions>) => {
  const { url, key, ...rest } = resolveTarget({ url: undefined, dataDir, env: {}, ...some })
  return { url: url.href, key: key?.reveal() ?? null, ...rest }
}
const put = (name: string, text: string): string => {
  writeFileSync(join(dataDir, name), text)
  return join(dataDir, name)
}
const refusal = (some: Partial<TargetOptions>): unknown => {
  try {
    return resolve(some)
  } catch (error) {
    return error
  }
}

describe('resolveTarget', () => {
  it('takes the flag before the environment before the file', () => {
    put('endpoint', 'http://file:1\n')
    const env = { MUSTER_URL: 'http://env:1' }
    expect(resolve({ url: 'http://flag:1', env })).toMatchObject({ url: 'http://flag:1/', urlFrom: '--url' })
    expect(resolve({ env })).toMatchObject({ url: 'http://env:1/', urlFrom: 'MUSTER_URL' })
    expect(resolve({})).toMatchObject({ url: 'http://file:1/', urlFrom: join(dataDir, 'endpoint') })
  })

  it('takes the key of the environment before the one in the data directory', () => {
    put('endpoint', 'http://h:1')
    const file = put('admin.key', 'k-file\n')
    const other = put('other.key', 'k-other\n')
    expect(resolve({ env: { MUSTER_ADMIN_KEY: 'k-env' } })).toMatchObject({ key: 'k-env', keyFrom: 'MUSTER_ADMIN_KEY' })
    expect(resolve({ env: { MUSTER_ADMIN_KEY_FILE: other } })).toMatchObject({ key: 'k-other', keyFrom: other })
    expect(resolve({})).toMatchObject({ key: 'k-file', keyFrom: file })
  })

  it('goes on without a key where there is none', () =>
    expect(resolve({ url: 'http://h:1' })).toMatchObject({ key: null, keyFrom: join(dataDir, 'admin.key'), isKeyWithheld: false }))

  it.each([
    ['the controller that the same directory names', 'https://h:1/', 'k-file'],
    ['the same by another name', 'https://H:1/path', 'k-file'],
    ['this machine', 'http://127.0.0.1:9', 'k-file'],
    ['this machine by name', 'http://localhost:9', 'k-file'],
    ['this machine over IPv6', 'http://[::1]:9', 'k-file'],
    ['another port', 'https://h:2', null],
    ['the same without encryption', 'http://h:1', null],
    ['another machine', 'https://evil.example', null],
    ['a machine that is called like this one', 'http://127.0.0.1.evil.example', null],
    ['another one', 'http://localhost.evil.example', null],
  ])('sends the key of the data directory to %s, or not', (_, url, key) => {
    put('endpoint', 'https://h:1')
    put('admin.key', 'k-file')
    for (const given of [{ url }, { env: { MUSTER_URL: url } }]) expect(resolve(given)).toMatchObject({ key, isKeyWithheld: key === null })
    expect(resolve({ url, env: { MUSTER_ADMIN_KEY: 'k-env' } })).toMatchObject({ key: 'k-env', isKeyWithheld: false })
  })

  it('sends no key elsewhere from a directory that names no controller', () => {
    put('admin.key', 'k-file')
    expect(resolve({ url: 'https://h:1' })).toMatchObject({ key: null, isKeyWithheld: true })
    put('endpoint', 'rubbish')
    expect(resolve({ url: 'https://h:1' })).toMatchObject({ key: null, isKeyWithheld: true })
  })

  it('prints the command to run when no controller is known', () => {
    expect(refusal({})).toBeInstanceOf(CliError)
    expect(refusal({})).toMatchObject({ exitCode: 1, hint: expect.stringContaining('muster up') as string })
  })

  it.each<[string, Partial<TargetOptions>]>([
    ['an address without a scheme', { url: 'localhost:8080' }],
    ['another scheme', { url: 'ftp://h' }],
    ['a password in the address', { url: 'http://user:password@h' }],
    ['a key with a line break', { url: 'http://h', env: { MUSTER_ADMIN_KEY: 'a\nb' } }],
    ['an empty key', { url: 'http://h', env: { MUSTER_ADMIN_KEY: '' } }],
    ['two keys', { url: 'http://h', env: { MUSTER_ADMIN_KEY: 'a', MUSTER_ADMIN_KEY_FILE: 'b' } }],
    ['a key file that is not there', { url: 'http://h', env: { MUSTER_ADMIN_KEY_FILE: '/nowhere/key' } }],
  ])('refuses %s as wrong usage', (_, some) => expect(refusal(some)).toMatchObject({ name: 'CliError', exitCode: 2 }))

  it('J8 shows no key in a message about it', () =>
    expect(String(refusal({ url: 'http://h', env: { MUSTER_ADMIN_KEY: 'canary key' } }))).not.toContain('canary'))
})
