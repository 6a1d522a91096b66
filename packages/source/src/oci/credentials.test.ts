import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { silentLog } from '@muster/host'
import { makeTempDir, type TempDir } from '@muster/testkit'
import { dockerCredentials, type Credential } from './credentials.ts'

let dir: TempDir
beforeEach(async () => {
  dir = await makeTempDir('credentials')
})
afterEach(async () => await dir.remove())

const find = async (file: unknown, registry: string): Promise<Credential | null> => {
  const path = join(dir.path, 'config.json')
  await writeFile(path, typeof file === 'string' ? file : JSON.stringify(file))
  return await dockerCredentials({ path, log: silentLog })(registry)
}
const shown = (found: Credential | null): string | null =>
  found === null ? null : found.kind === 'identity' ? `token ${found.token.reveal()}` : `${found.username}:${found.password.reveal()}`
const login = (text: string): { auth: string } => ({ auth: Buffer.from(text).toString('base64') })

it.each([
  ['host.test', 'host.test', 'u:p'],
  ['host.test:5000', 'host.test:5000', 'u:p'],
  ['https://host.test', 'host.test', 'u:p'],
  ['https://host.test/v1/', 'host.test', 'u:p'],
  ['https://index.docker.io/v1/', 'docker.io', 'u:p'],
  ['host.test', 'host.test:5000', null],
  ['host.test:5000', 'host.test', null],
  ['host.test', 'evil-host.test', null],
  ['host.test', 'host.test.evil', null],
  ['host.test/owner', 'host.test', null],
])('E11 a login for %s counts for %s: %s', async (key, registry, expected) => {
  expect(shown(await find({ auths: { [key]: login('u:p') } }, registry))).toBe(expected)
})

it('takes all the forms in which Docker writes a login', async () => {
  expect(shown(await find({ auths: { a: login('u:p:with:colons') } }, 'a'))).toBe('u:p:with:colons')
  expect(shown(await find({ auths: { a: { username: 'u', password: 'p' } } }, 'a'))).toBe('u:p')
  expect(shown(await find({ auths: { a: { ...login('u:p'), identitytoken: 't' } } }, 'a'))).toBe('token t')
  expect(await find({ auths: { a: {} }, credsStore: 'desktop' }, 'a')).toBe(null)
  expect(await find({}, 'a')).toBe(null)
})

it('a file that is not there holds nothing; a new login counts at once', async () => {
  const path = join(dir.path, 'later.json')
  const source = dockerCredentials({ path, log: silentLog })
  await expect(source('a')).resolves.toBe(null)
  await writeFile(path, JSON.stringify({ auths: { a: login('u:p') } }))
  expect(shown(await source('a'))).toBe('u:p')
})

it.each([
  ['no JSON', '{"auths": hunter2'],
  ['not such a file', '{"auths":{"a":{"auth":5,"password":"hunter2"}}}'],
  ['no user and password', JSON.stringify({ auths: { a: login('hunter2') } })],
])('I21 a file that is %s is refused, and not quoted', async (_what, text) => {
  await expect(find(text, 'a')).rejects.toSatisfy(
    (error: Error) => /credentials file .* not used/.test(error.message) && !inspect(error).includes('hunter2'),
  )
})

it('I21 a credential that is printed shows no secret', async () => {
  const found = await find({ auths: { a: login('user:hunter2') } }, 'a')
  expect(`${inspect(found, { depth: 9 })} ${JSON.stringify(found)}`).not.toContain('hunter2')
})
