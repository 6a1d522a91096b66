// Pure: what `up` and `controller` say on stdout once everything works. The secrets of the first
// start are shown here and nowhere else.
import type { Secret } from '@muster/host'

/** Null: not on this machine. */
export type SecretPlace = { readonly file: string } | { readonly variable: string } | null

export interface ReadyFacts {
  readonly version: string
  /** Under which others reach it. */
  readonly url: string
  /** Under which this machine does. */
  readonly localUrl: string
  readonly dataDir: string
  readonly loginLink: string
  readonly workers: number
  readonly bus: 'local' | 'nats'
  readonly adminKey: SecretPlace
  readonly joinToken: SecretPlace
  /** At this very start. */
  readonly made: { readonly adminKey: Secret | null; readonly joinToken: Secret | null }
}

export function readyMessage(facts: ReadyFacts): string {
  const workers = facts.workers === 0 ? '' : ` with ${facts.workers} ${facts.workers === 1 ? 'worker' : 'workers'}`
  const rows: [string, string][] = [
    ['UI', `${facts.loginLink}   (works once; \`muster login-link\` makes another)`],
    ['API', `${facts.url}/v1   (OpenAI-compatible; administration under ${facts.url}/api)`],
    ['Try', curlLine(facts)],
    ['Data', facts.dataDir],
  ]
  return [
    '',
    `Muster ${facts.version} is running${workers}.`,
    '',
    ...rows.map(row),
    ...secretLines(facts),
    '',
    ...joinLines(facts),
    '',
  ].join('\n')
}

const row = ([heading, value]: readonly [string, string]): string => `  ${heading.padEnd(10)}  ${value}`

/** Works as it is, pasted into a shell on this machine. */
function curlLine({ adminKey, localUrl }: ReadyFacts): string {
  if (adminKey === null) return `curl ${localUrl}/version`
  const key = 'file' in adminKey ? `$(cat ${shellWord(adminKey.file)})` : `$${adminKey.variable}`
  return `curl -H "Authorization: Bearer ${key}" ${localUrl}/api/nodes`
}

function secretLines({ made, adminKey, joinToken }: ReadyFacts): string[] {
  const lines = [secretLine('Admin key', made.adminKey, adminKey), secretLine('Join token', made.joinToken, joinToken)].flat()
  return lines.length === 0 ? [] : ['', ...lines]
}

const secretLine = (heading: string, made: Secret | null, place: SecretPlace): string[] =>
  made === null
    ? []
    : [row([heading, `${made.reveal()}   (shown once${place !== null && 'file' in place ? `; kept in ${place.file}` : ''})`])]

function joinLines({ bus, url, localUrl, joinToken }: ReadyFacts): string[] {
  const where = joinToken === null ? '' : ` (the token is in ${'file' in joinToken ? joinToken.file : joinToken.variable})`
  if (bus === 'nats') return [`To add a machine, run there: muster join ${url} --token TOKEN${where}`]
  return [
    'To add other machines, this one needs a NATS server that they can reach. Start it again with',
    '  muster up --host 0.0.0.0 --nats-url nats://HOST:4222',
    `and run on each of them`,
    `  muster join http://HOST:${new URL(localUrl).port} --token TOKEN${where}`,
  ]
}

/** One word for a shell inside of "$( )", whatever is in it. */
export const shellWord = (text: string): string => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`)
