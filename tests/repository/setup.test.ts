// scripts/setup.mjs in a clone of one package, with an npm that only pretends.
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createProcesses, makeTempDir, waitFor } from '@muster/testkit'
import type { StartedProcess, TempDir } from '@muster/testkit'

const setupScript = join(import.meta.dirname, '..', '..', 'scripts', 'setup.mjs')
const processes = createProcesses()
let clone: TempDir

const inClone = (...path: string[]): string => join(clone.path, ...path)
const timesInstalled = (): number =>
  existsSync(inClone('npm.log')) ? readFileSync(inClone('npm.log'), 'utf8').trim().split('\n').length : 0

beforeEach(async () => {
  clone = await makeTempDir('setup')
  mkdirSync(inClone('scripts'))
  cpSync(setupScript, inClone('scripts', 'setup.mjs'))
  writeFileSync(inClone('package-lock.json'), '{ "packages": { "node_modules/a": { "version": "1.0.0" } } }')
  npmDoes(bringsNode)
})
afterEach(async () => {
  await processes.stopAll()
  await clone.remove()
})

const bringsNode = `mkdir node_modules/.bin; ln -s ${process.execPath} node_modules/.bin/node`

/** Like npm, it empties node_modules first and writes its record of what it installed last. */
function npmDoes(inBetween: string): void {
  const steps = [
    '#!/bin/sh',
    'set -e',
    'echo "$@" >>npm.log',
    'case "$1" in ci) rm -rf node_modules && mkdir node_modules ;; esac',
    inBetween,
    // Without development packages its record lacks them.
    'case "$*" in *--omit=dev*) grep -v dev package-lock.json ;; *) cat package-lock.json ;; esac >node_modules/.package-lock.json',
    'echo noise',
  ]
  writeFileSync(inClone('npm'), steps.join('\n'))
  chmodSync(inClone('npm'), 0o755)
}

const setup = (...args: string[]): Promise<StartedProcess> =>
  processes.start(process.execPath, {
    args: [inClone('scripts', 'setup.mjs'), ...args],
    cwd: clone.path,
    env: { PATH: `${clone.path}:/usr/bin:/bin`, npm_execpath: '' },
  })

describe('setup', () => {
  it('installs once, and then does and prints nothing', async () => {
    const first = await setup()
    expect(await first.exited).toEqual({ code: 0, signal: null })
    expect(first.stderr()).toMatch(/^setup: installing 1 packages \(npm ci\) …\nsetup: packages installed in .* s\n$/)
    const second = await setup()
    expect(await second.exited).toEqual({ code: 0, signal: null })
    expect([first.stdout(), second.output(), timesInstalled()]).toEqual(['', '', 1])
  })

  it('installs again when the lock file asks for another version', async () => {
    await (
      await setup()
    ).exited
    writeFileSync(inClone('package-lock.json'), '{ "packages": { "node_modules/a": { "version": "1.0.1" } } }')
    await (
      await setup()
    ).exited
    expect(timesInstalled()).toBe(2)
  })

  describe('for running', () => {
    const lock = [
      '{ "packages": { "node_modules/a": { "version": "1.0.0" }',
      ', "node_modules/b": { "version": "1.0.0", "dev": true }',
      '} }',
    ]
    const npmArguments = (): string[] => readFileSync(inClone('npm.log'), 'utf8').trim().split('\n')
    const ended = { code: 0, signal: null }
    beforeEach(() => writeFileSync(inClone('package-lock.json'), lock.join('\n')))

    it('installs no development packages, once', async () => {
      const first = await setup('run')
      expect(await first.exited).toEqual(ended)
      expect(first.stderr()).toContain('installing 1 packages')
      expect(npmArguments()[0]).toMatch(/^ci .*--omit=dev .*--workspace=packages\/cli/)
      const second = await setup('run')
      expect(await second.exited).toEqual(ended)
      expect([second.output(), timesInstalled()]).toEqual(['', 1])
    })

    it('adds them for tests, without deleting a package that a running Muster uses', async () => {
      expect(await (await setup('run')).exited).toEqual(ended)
      npmDoes('')
      writeFileSync(inClone('node_modules', 'in-use'), '')
      expect(await (await setup()).exited).toEqual(ended)
      expect(npmArguments()[1]).toMatch(/^install .*--no-save .*--include=dev/)
      expect(existsSync(inClone('node_modules', 'in-use'))).toBe(true)
      for (const set of [[], ['run']]) expect(await (await setup(...set)).exited).toEqual(ended)
      expect(timesInstalled()).toBe(2)
    })

    it('needs nothing where everything is installed', async () => {
      expect(await (await setup()).exited).toEqual(ended)
      expect(await (await setup('run')).exited).toEqual(ended)
      expect(timesInstalled()).toBe(1)
    })

    it('installs again when the lock file changes', async () => {
      expect(await (await setup('run')).exited).toEqual(ended)
      writeFileSync(inClone('package-lock.json'), lock.join('\n').replace('1.0.0', '1.0.1'))
      expect(await (await setup('run')).exited).toEqual(ended)
      expect(timesInstalled()).toBe(2)
    })
  })

  it('counts the packages while npm is silent', async () => {
    npmDoes(`mkdir -p node_modules/a; echo '{}' >node_modules/a/package.json; while ! [ -e go-on ]; do sleep 0.05; done; ${bringsNode}`)
    const started = await setup()
    await started.waitForOutput(/setup: 1 of 1 packages/)
    writeFileSync(inClone('go-on'), '')
    expect(await started.exited).toEqual({ code: 0, signal: null })
  })

  it('takes the Node it runs on where npm brings none', async () => {
    await (
      await setup()
    ).exited
    const child = await processes.start(inClone('node_modules', '.bin', 'node'), { args: ['--version'] })
    await child.exited
    expect(child.stdout().trim()).toBe(process.version)
  })

  it('leaves the install to one when two start at once', async () => {
    npmDoes(`sleep 0.5; ${bringsNode}`)
    const both = await Promise.all([setup(), setup()])
    expect(await Promise.all(both.map((each) => each.exited))).toEqual([
      { code: 0, signal: null },
      { code: 0, signal: null },
    ])
    expect(timesInstalled()).toBe(1)
  })

  it('fails with the output of npm, and tries again the next time', async () => {
    npmDoes('echo "no network" >&2; exit 7')
    const failed = await setup()
    expect(await failed.exited).toEqual({ code: 1, signal: null })
    expect(failed.stderr()).toMatch(/no network\nsetup: npm ci ended with exit code 7; nothing was started/)
    npmDoes(bringsNode)
    expect(await (await setup()).exited).toEqual({ code: 0, signal: null })
    expect(timesInstalled()).toBe(2)
  })

  it('takes over after an install that was killed', async () => {
    npmDoes('sleep 100')
    const killed = await setup()
    await waitFor(() => existsSync(inClone('node_modules')), { what: 'npm to be in the middle of it' })
    await killed.stop()
    npmDoes(bringsNode)
    const next = await setup()
    expect(await next.exited).toEqual({ code: 0, signal: null })
    expect(timesInstalled()).toBe(2)
  })

  it('waits for an npm whose setup was killed', async () => {
    npmDoes(`while ! [ -e go-on ]; do sleep 0.05; done; ${bringsNode}`)
    const killed = await setup()
    await waitFor(() => timesInstalled() === 1 && readFileSync(inClone('.cache', 'setup.lock'), 'utf8').includes('\n'), {
      what: 'npm to run',
    })
    killed.kill('SIGKILL')
    await killed.exited
    const next = await setup()
    await next.waitForOutput(/waiting for another setup/)
    writeFileSync(inClone('go-on'), '')
    expect(await next.exited).toEqual({ code: 0, signal: null })
    expect(timesInstalled()).toBe(1)
  })
})
