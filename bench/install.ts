// Installing one image of many layers from a registry on this machine: by a worker, and by `skopeo copy` and `umoci
// unpack`, in turns. Then a second version, of which only one layer is new. What is in it: bench/README.md.
import { fork, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { makeTempDir, startRegistry, type Registry } from '@muster/testkit'
import { makeVersions, type BenchImage } from './install-image.ts'
import type { InstallCommand, InstallCost } from './install-worker.ts'
import { endedChildrenCpuSeconds } from './process-cost.ts'

const rounds = Number(process.env['BENCH_ROUNDS'] ?? 3)
const repository = 'bench/backend'

interface TheirCost {
  readonly copySeconds: number
  readonly unpackSeconds: number
  readonly cpuSeconds: number
  /** Time of the final `sync`: these programs leave writing to the kernel, a worker does not. */
  readonly syncSeconds: number
}

if (!['skopeo', 'umoci'].every((tool) => spawnSync(tool, ['--version']).status === 0)) {
  console.error('this compares with skopeo and umoci, which no test needs; on Debian: apt-get install --no-install-recommends skopeo umoci')
  process.exit(1)
}

await using directory = await makeTempDir('bench')
await using registry = await startRegistry()
const [first, second] = await makeVersions()
await push(first, '1')
await push(second, '2')
const packed = (image: BenchImage): number => image.layers.reduce((sum, { bytes }) => sum + bytes.length, 0)
console.log(
  `${first.layers.length} layers, ${first.files} files, ${mega(first.bytes)} MB unpacked, ${mega(packed(first))} MB packed; ${rounds} rounds`,
)

// Nothing is removed before the end: for minutes after many files were removed, ext4 makes new ones ten times as slowly.
const theirs: TheirCost[] = []
const ours: { first: InstallCost; second: InstallCost; firstBytes: number; secondBytes: number }[] = []
for (let round = 0; round < rounds; round += 1) {
  theirs.push(await skopeoAndUmoci(round))
  ours.push(await ourWorker(round))
}
report()

/** As root umoci restores owners; otherwise it has to be told that it can't. */
async function skopeoAndUmoci(round: number): Promise<TheirCost> {
  const [layout, bundle] = [join(directory.path, `layout-${round}`), join(directory.path, `bundle-${round}`)]
  settle()
  const cpu = endedChildrenCpuSeconds(process.pid)
  const source = `docker://${registry.host}/${repository}:1`
  const copySeconds = timed('skopeo', ['--insecure-policy', 'copy', '--quiet', '--src-tls-verify=false', source, `oci:${layout}:1`])
  const rootless = process.getuid?.() === 0 ? [] : ['--rootless']
  const unpackSeconds = timed('umoci', ['unpack', ...rootless, '--image', `${layout}:1`, bundle])
  const cpuSeconds = endedChildrenCpuSeconds(process.pid) - cpu
  const syncSeconds = timed('sync', ['-f', directory.path])
  return { copySeconds, unpackSeconds, cpuSeconds, syncSeconds }
}

async function ourWorker(round: number): Promise<(typeof ours)[number]> {
  const data = join(directory.path, `worker-${round}`)
  const child = fork(join(import.meta.dirname, 'install-worker.ts'), [data, registry.host])
  await answerOf(child)
  settle()
  const install = async (command: InstallCommand): Promise<{ cost: InstallCost; bytes: number }> => {
    const before = sentBytes(registry)
    child.send(command)
    const cost = (await answerOf(child)) as InstallCost
    return { cost, bytes: sentBytes(registry) - before }
  }
  const once1 = await install({ kind: 'install', uri: `oci://${registry.host}/${repository}:1` })
  const once2 = await install({ kind: 'upgrade', uri: `oci://${registry.host}/${repository}:2` })
  child.disconnect()
  await once(child, 'exit')
  return { first: once1.cost, firstBytes: once1.bytes, second: once2.cost, secondBytes: once2.bytes }
}

async function answerOf(child: ChildProcess): Promise<unknown> {
  const ended = new AbortController()
  const exit = once(child, 'exit', { signal: ended.signal }).then(([code]) => {
    throw new Error(`the worker ended (${code})`)
  })
  exit.catch(() => undefined)
  try {
    const [answer] = (await Promise.race([once(child, 'message', { signal: ended.signal }), exit])) as unknown[]
    return answer
  } finally {
    ended.abort()
  }
}

/** Keeps one contender from waiting for the writes of the other. */
function settle(): void {
  timed('sync', [])
}

function timed(program: string, args: readonly string[]): number {
  const began = performance.now()
  const { status, stderr } = spawnSync(program, args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`${program} ${args.join(' ')}: ${stderr}`)
  return (performance.now() - began) / 1_000
}

async function push(image: BenchImage, tag: string): Promise<void> {
  const base = `${registry.url}/v2/${repository}`
  for (const { digest, bytes } of [image.config, ...image.layers]) {
    const started = await fetch(`${base}/blobs/uploads/`, { method: 'POST' })
    const upload = new URL(started.headers.get('location') ?? '')
    upload.searchParams.set('digest', digest)
    await put(upload, { bytes, type: 'application/octet-stream' })
  }
  await put(new URL(`${base}/manifests/${tag}`), { bytes: image.manifest.bytes, type: image.manifest.mediaType })
}

async function put(url: URL, { bytes, type }: { bytes: Buffer; type: string }): Promise<void> {
  const { status } = await fetch(url, { method: 'PUT', body: new Uint8Array(bytes), headers: { 'content-type': type } })
  if (status !== 201) throw new Error(`the registry answers ${status} to PUT ${url.pathname}`)
}

/** Sum over all blobs, from the registry's log of its answers. */
function sentBytes({ log }: Registry): number {
  const answers = log().matchAll(/"GET \/v2\/[^ ]+\/blobs\/[^ ]+ HTTP\/1\.1" 20[06] (\d+) /g)
  return [...answers].reduce((sum, [, bytes]) => sum + Number(bytes), 0)
}

function report(): void {
  const they = (of: (cost: TheirCost) => number): number => median(theirs.map(of))
  const we = (of: (cost: InstallCost) => number): number => median(ours.map((each) => of(each.first)))
  const step = (name: string) => we(({ steps }) => steps[name] ?? 0)
  const time = { they: they(({ copySeconds, unpackSeconds }) => copySeconds + unpackSeconds), we: we(({ seconds }) => seconds) }
  console.table([
    {
      figure: 'skopeo copy + umoci unpack (s)',
      median: time.they.toFixed(2),
      rounds: shown(theirs.map((it) => it.copySeconds + it.unpackSeconds)),
    },
    { figure: '  of it: skopeo (s)', median: they((it) => it.copySeconds).toFixed(2) },
    { figure: '  CPU (s)', median: they((it) => it.cpuSeconds).toFixed(2) },
    { figure: '  sync afterwards, not counted (s)', median: they((it) => it.syncSeconds).toFixed(2) },
    { figure: 'worker, all on the disk (s)', median: time.we.toFixed(2), rounds: shown(ours.map((it) => it.first.seconds)) },
    { figure: '  until the last layer was verified (s)', median: step('W.pull.layer_verified').toFixed(2) },
    { figure: '  until the tree was built (s)', median: step('W.unpack.done').toFixed(2) },
    { figure: '  CPU (s)', median: we((it) => it.cpuSeconds).toFixed(2) },
    { figure: 'worker / skopeo + umoci', median: (time.we / time.they).toFixed(2) },
    {
      figure: 'worker, peak memory (MB)',
      median: mega(we((it) => it.peakBytes)),
      rounds: shown(ours.map((it) => it.first.peakBytes / 1e6)),
    },
    { figure: 'worker, resident before it (MB)', median: mega(we((it) => it.idleBytes)) },
    {
      figure: 'worker, longest block of its event loop (ms)',
      median: we((it) => it.longestBlockMs).toFixed(1),
      rounds: shown(ours.map((it) => it.first.longestBlockMs)),
    },
    {
      figure: '  by its own processor time (ms)',
      median: we((it) => it.longestBusyMs).toFixed(1),
      rounds: shown(ours.map((it) => it.first.longestBusyMs)),
    },
    { figure: 'second version (s)', median: median(ours.map((it) => it.second.seconds)).toFixed(2) },
    { figure: 'second version, peak memory (MB)', median: mega(median(ours.map((it) => it.second.peakBytes))) },
    { figure: 'first version, sent by the registry (MB)', median: mega(median(ours.map((it) => it.firstBytes))) },
    { figure: 'second version, sent by the registry (MB)', median: mega(median(ours.map((it) => it.secondBytes))) },
    { figure: '  its new layer (MB)', median: mega(second.layers.at(-1)?.bytes.length ?? 0) },
  ])
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0
}

function mega(bytes: number): string {
  return (bytes / 1e6).toFixed(1)
}

function shown(values: readonly number[]): string {
  return values.map((value) => value.toFixed(1)).join(' ')
}
