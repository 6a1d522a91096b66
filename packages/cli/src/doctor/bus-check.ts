// The bus: as the controller reports it, else by connecting to NATS, which introduces itself with an INFO line.
import { parseJson } from '@muster/host'
import { formatBytes } from '@muster/protocol'
import { plainText } from '../output/text.ts'
import { type Check, fail, ok, type Verdict, warn } from './checks.ts'
import { type ControllerReport, judgeUnreported, type KnownTarget, queryController } from './controller-report.ts'
import { probeSocket, type SocketFinding } from './probes.ts'

/** Null: the controller reported nothing about its bus. */
export function judgeBusOfController(report: ControllerReport): Verdict | null {
  if (report.kind === 'ready') return ok('works: the controller is ready')
  if (report.kind !== 'status') return null
  const { kind, connected, open } = report.status.bus
  if (!connected)
    return fail('the controller has no connection to NATS', "check that nats-server runs, and the controller's --nats-url and credentials")
  if (open === true) return openBus('the controller is connected to NATS')
  return ok(
    kind === 'local' ? 'in-process, works (workers on other machines need NATS: --nats-url)' : 'the controller is connected to NATS',
  )
}

const openBus = (found: string): Verdict =>
  warn(
    `${found}, which needs no credentials: anyone who can reach it can act as any node`,
    'make a configuration for it with `muster nats-config`, and give controllers the account seed (MUSTER_NATS_ACCOUNT_SEED_FILE)',
  )

type BusFacts = Readonly<{ known: KnownTarget; natsUrl: string | undefined; isOpen: boolean }>

export const busCheck = ({ known, natsUrl, isOpen }: BusFacts): Check => ({
  name: 'bus',
  run: async (signal) => {
    const report = await queryController(known, signal)
    const reported = judgeBusOfController(report)
    if (reported !== null) return reported
    const seen = natsUrl === undefined ? ok('no --nats-url: `muster up` uses its in-process bus') : await examineNats(natsUrl, signal)
    const local = seen.level === 'ok' && isOpen ? openBus(seen.found) : seen
    return judgeUnreported(report, local, '--nats-url') ?? local
  },
})

/** The oldest version that Muster is tested with (Debian 12's). */
const oldestNats = [2, 9] as const
/** Inventories and load requests of large nodes are nearly this large. */
const leastPayload = 1024 * 1024

/** `url` without user and password. */
export function judgeNatsServer(url: string, finding: SocketFinding): Verdict {
  if (!finding.answered)
    return fail(`${url} does not answer as a NATS server: ${finding.reason}`, 'start nats-server there, or correct --nats-url')
  const info = parseInfo(finding.data.toString('utf8'))
  if (info === null) return fail(`the server at ${url} is not a NATS server`, 'correct --nats-url')
  const found = `${url} is nats-server ${plainText(info.version)}, messages up to ${formatBytes(info.maxPayload)}`
  if (isOlder(info.version)) return fail(found, `use nats-server ${oldestNats.join('.')} or newer`)
  if (info.maxPayload < leastPayload) return warn(found, 'set max_payload to 1MB or more in its configuration')
  return ok(found)
}

function parseInfo(text: string): { version: string; maxPayload: number } | null {
  const json = parseJson(/^INFO\s+(\{.*\})\s*\r?\n/i.exec(text)?.[1] ?? '')
  if (typeof json !== 'object' || json === null || !('version' in json) || !('max_payload' in json)) return null
  const { version, max_payload: maxPayload } = json
  return typeof version === 'string' && typeof maxPayload === 'number' ? { version, maxPayload } : null
}

function isOlder(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map((part) => Number.parseInt(part, 10) || 0)
  return major < oldestNats[0] || (major === oldestNats[0] && minor < oldestNats[1])
}

async function examineNats(natsUrl: string, signal: AbortSignal): Promise<Verdict> {
  // Only the first server of a cluster is checked.
  const first = natsUrl.split(',')[0]?.trim() ?? ''
  const url = URL.parse(first.includes('://') ? first : `nats://${first}`)
  if (url === null || url.hostname === '') return fail('--nats-url is not a URL', 'write it as nats://host:4222')
  const to = { host: url.hostname.replace(/^\[|\]$/g, ''), port: Number(url.port || 4222) }
  const finding = await probeSocket({ to, send: null, isWhole: (data) => data.includes('\n'), signal })
  return judgeNatsServer(`${url.protocol}//${url.host}`, finding)
}
