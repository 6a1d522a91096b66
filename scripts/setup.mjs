// Makes a clone ready to run: its packages, and Node 24 as node_modules/.bin/node. Runs before every other
// command and before anything is installed, so it is plain JavaScript for Node 20 and imports only node:*.
// It prints to stderr alone, and only when there is work: the output of the command that follows stays clean.
// `node setup.mjs` installs everything, `node setup.mjs run` only the packages that Muster runs on.
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { appendFileSync, existsSync, linkSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const neededMajor = 24
const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const modules = join(root, 'node_modules')
const installedRecord = join(modules, '.package-lock.json')
/** Holds the digest of the lock file whose packages for running are installed. npm deletes it with all others. */
const runStamp = join(modules, '.muster-run')
/** The command line with all that it starts, the web page, which controllers build, and the backend that they assemble. */
const runWorkspaces = ['packages/cli', 'packages/web', 'backends/llama']
const nodeLink = join(modules, '.bin', 'node')
const lockFile = join(root, '.cache', 'setup.lock')

const say = (line) => process.stderr.write(`setup: ${line}\n`)

class SetupError extends Error {}

const isInstalled = (set) => isEverythingInstalled() || (set === 'run' && isRunSetInstalled())

/** A set without development packages leaves no record that can be compared, since workspaces are left out too. */
function isRunSetInstalled() {
  try {
    return readFileSync(runStamp, 'utf8') === lockDigest()
  } catch {
    return false
  }
}

const lockDigest = () =>
  createHash('sha256')
    .update(readFileSync(join(root, 'package-lock.json')))
    .digest('hex')

/**
 * npm writes down what it installed when it is done; that record has to agree with package-lock.json. What a person
 * installs with npm counts too.
 */
function isEverythingInstalled() {
  const installed = readPackages(installedRecord)
  const locked = readPackages(join(root, 'package-lock.json'))
  if (installed === null || locked === null) return false
  return Object.entries(locked).every(([path, wanted]) => {
    const found = installed[path]
    if (!path.includes('node_modules/') || (found === undefined && !isNeededHere(wanted))) return true
    return found !== undefined && found.version === wanted.version && found.integrity === wanted.integrity
  })
}

function readPackages(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8')).packages
  } catch {
    return null
  }
}

/** An optional package is needed if it names this system and processor: Node and PostgreSQL come that way. */
function isNeededHere(entry) {
  if (!entry.optional) return true
  const names = (list, value) => list !== undefined && [list].flat().includes(value)
  return entry.libc === undefined && names(entry.os, process.platform) && names(entry.cpu, process.arch)
}

/** Where npm has no Node for this machine, the one that runs this script takes its place, if it is new enough. */
function ensureNode() {
  if (isNewEnough(nodeVersion(nodeLink))) return
  if (!isNewEnough(process.version)) {
    throw new SetupError(
      `Muster needs Node ${neededMajor} or newer. npm brings it on Linux with glibc on x64 and arm64; ` +
        `this is ${process.platform} on ${process.arch} with Node ${process.version}. Install Node ${neededMajor} (https://nodejs.org) and run this again.`,
    )
  }
  mkdirSync(dirname(nodeLink), { recursive: true })
  rmSync(nodeLink, { force: true })
  symlinkSync(process.execPath, nodeLink)
}

function nodeVersion(program) {
  const result = spawnSync(program, ['--version'], { encoding: 'utf8' })
  return result.status === 0 ? result.stdout.trim() : ''
}

function isNewEnough(version) {
  return Number.parseInt(version.replace(/^v/, ''), 10) >= neededMajor
}

async function install(set) {
  const wanted = wantedPackages(set)
  const { command, flags } = installPlan(set)
  say(`installing ${wanted.length} packages (npm ${command}) …`)
  const started = performance.now()
  // Without this, an install that is killed while it deletes the old packages would still look complete.
  if (command === 'ci') rmSync(installedRecord, { force: true })
  const npm = npmCommand()
  const args = [...npm.args, command, '--ignore-scripts', ...flags, '--include=optional', '--no-audit', '--no-fund', '--loglevel=error']
  const child = spawn(npm.program, args, { cwd: root, env: npm.env, stdio: ['ignore', 'ignore', 'inherit'] })
  // If this process is killed, npm goes on: the lock is held until both are gone.
  if (child.pid !== undefined) appendFileSync(lockFile, `\n${identify(child.pid)}`)
  const progress = showProgress(wanted)
  const stop = (signal) => child.kill(signal)
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP']
  for (const signal of signals) process.on(signal, stop)
  const outcome = await new Promise((resolve) => {
    child.on('error', (error) => resolve(error.message))
    child.on('exit', (code, signal) => resolve(code === 0 ? null : `npm ${command} ended with ${signal ?? `exit code ${code}`}`))
  })
  progress.end()
  for (const signal of signals) process.off(signal, stop)
  if (outcome !== null) throw new SetupError(`${outcome}; nothing was started. Run the same command again once the cause is gone.`)
  if (set === 'run') writeFileSync(runStamp, lockDigest())
  say(`packages installed in ${((performance.now() - started) / 1000).toFixed(1)} s`)
}

function installPlan(set) {
  if (set === 'run')
    return { command: 'ci', flags: ['--omit=dev', '--include-workspace-root', ...runWorkspaces.map((path) => `--workspace=${path}`)] }
  // Only adds packages: `npm ci` would delete those that a running Muster uses.
  if (isRunSetInstalled()) return { command: 'install', flags: ['--no-save', '--include=dev'] }
  return { command: 'ci', flags: ['--include=dev'] }
}

/** Approximate for running: a few packages that only tests use are counted too. */
function wantedPackages(set) {
  const locked = Object.entries(readPackages(join(root, 'package-lock.json')) ?? {})
  return locked
    .filter(([path, entry]) => path.includes('node_modules/') && !entry.link && isNeededHere(entry))
    .filter(([, entry]) => set !== 'run' || !(entry.dev || entry.devOptional))
    .map(([path]) => path)
}

/** The line of a terminal is written again; a file gets a line each time. */
const everyMs = { terminal: 500, file: 10_000 }
const firstMs = 1_000

/** npm is silent for the minutes of a first install: counts the packages that are there. */
function showProgress(wanted) {
  const isTerminal = process.stderr.isTTY === true
  const show = () => {
    const count = wanted.filter((path) => existsSync(join(root, path, 'package.json'))).length
    const line = `${count} of ${wanted.length} packages`
    if (isTerminal) process.stderr.write(`\r\u001b[2Ksetup: ${line}`)
    else say(line)
  }
  const first = setTimeout(show, firstMs)
  const timer = setInterval(show, isTerminal ? everyMs.terminal : everyMs.file)
  return {
    end: () => {
      clearTimeout(first)
      clearInterval(timer)
      if (isTerminal) process.stderr.write('\r\u001b[2K')
    },
  }
}

/** npm must not run on the Node below node_modules, which it is about to delete. */
function npmCommand() {
  const bin = join(modules, '.bin')
  const path = (process.env.PATH ?? '').split(delimiter).filter((entry) => entry !== bin)
  const env = { ...process.env, PATH: path.join(delimiter) }
  const cli = process.env.npm_execpath
  const ownNode = process.execPath.startsWith(modules) ? 'node' : process.execPath
  if (cli !== undefined && /npm-cli\.c?js$/.test(cli) && existsSync(cli)) return { program: ownNode, args: [cli], env }
  return { program: 'npm', args: [], env }
}

/** Holds the lock while `work` runs. One that its owner left behind, by dying, is taken over. */
async function withLock(work) {
  const own = `${lockFile}.${process.pid}`
  mkdirSync(dirname(lockFile), { recursive: true })
  writeFileSync(own, identify(process.pid))
  try {
    for (let waited = false; !tryLink(own); waited = true) {
      const holder = readLock(lockFile)
      if (holder === null) continue
      if (holder.split('\n').some(isAlive)) {
        if (!waited) say(`waiting for another setup of this clone (process ${holder.split(' ')[0]}) …`)
        await new Promise((resolve) => setTimeout(resolve, 200))
      } else removeStale(holder)
    }
    try {
      await work()
    } finally {
      rmSync(lockFile, { force: true })
    }
  } finally {
    rmSync(own, { force: true })
  }
}

function tryLink(own) {
  try {
    linkSync(own, lockFile)
    rmSync(own)
    return true
  } catch (error) {
    if (error.code === 'EEXIST') return false
    throw error
  }
}

/** Between reading and removing, another setup may have taken the lock: what was moved away is looked at again. */
function removeStale(holder) {
  const aside = `${lockFile}.${process.pid}.stale`
  try {
    renameSync(lockFile, aside)
  } catch (error) {
    if (error.code === 'ENOENT') return
    throw error
  }
  if (readLock(aside) === holder) rmSync(aside)
  else renameSync(aside, lockFile)
}

function readLock(file) {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return null
  }
}

/** A pid alone may be another process by now; on Linux its start time tells. */
function identify(pid) {
  return `${pid} ${startTime(pid)}`
}

function startTime(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields[0] === 'Z' ? 'ended' : fields[19]
  } catch {
    return 'unknown'
  }
}

function isAlive(identity) {
  const [pid, started] = identity.split(' ')
  try {
    process.kill(Number(pid), 0)
  } catch (error) {
    if (error.code === 'ESRCH') return false
  }
  return startTime(pid) === started
}

async function main(set) {
  if (isInstalled(set) && existsSync(nodeLink)) return
  await withLock(async () => {
    if (!isInstalled(set) || !existsSync(nodeLink)) await install(set)
    ensureNode()
  })
}

try {
  await main(process.argv[2] === 'run' ? 'run' : 'all')
} catch (error) {
  if (!(error instanceof SetupError)) throw error
  say(error.message)
  process.exitCode = 1
}
