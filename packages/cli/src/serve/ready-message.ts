// Pure: the message of `up` and `controller` on stdout when they are ready. It alone shows the secrets of the first start.
import type { Secret } from '@muster/host'
import { isLoopback } from '../client/target.ts'
import type { CommandWriter } from '../output/command-writer.ts'
import { shellWord } from '../output/text.ts'
import type { GivenFlag } from './setting-options.ts'

/** Null: not on this machine. */
export type SecretLocation = { readonly file: string } | { readonly variable: string } | null

export interface ReadyFacts {
  readonly version: string
  /** For other machines. */
  readonly url: string
  /** For this machine. */
  readonly localUrl: string
  readonly dataDir: string
  readonly loginLink: string
  readonly workers: number
  readonly bus: 'local' | 'nats'
  readonly adminKey: SecretLocation
  readonly joinToken: SecretLocation
  /** Created by this start. */
  readonly made: { readonly adminKey: Secret | null; readonly joinToken: Secret | null }
  /** A model to try; null when there is none. */
  readonly model: string | null
  /** /v1 answers without a key. */
  readonly isOpen: boolean
  /** The flags of this start. */
  readonly given: readonly GivenFlag[]
  readonly commands: CommandWriter
}

export function readyMessage(facts: ReadyFacts): string {
  const workers = facts.workers === 0 ? '' : ` with ${facts.workers} ${facts.workers === 1 ? 'worker' : 'workers'}`
  const rows: [string, string][] = [
    ['UI', `${facts.loginLink}   (works once; ${facts.commands.write('`muster login-link`')} creates another)`],
    ['API', `${facts.url}/v1   (base URL for OpenAI clients${facts.model === null ? '; no models yet' : ''})`],
    ['Admin API', `${facts.url}/api   (${facts.commands.write('`muster keys create`')} creates keys for it)`],
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

/** Can be pasted into a shell on this machine. */
function curlLine({ adminKey, localUrl, model, isOpen }: ReadyFacts): string {
  if (adminKey === null && !(isOpen && model !== null)) return `curl ${localUrl}/version`
  const key = adminKey === null ? '' : 'file' in adminKey ? `$(cat ${shellWord(adminKey.file)})` : `$${adminKey.variable}`
  const authorization = `-H "Authorization: Bearer ${key}"`
  if (model === null) return `curl ${authorization} ${localUrl}/api/nodes`
  const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'What is the capital of France?' }] })
  const headers = [...(isOpen ? [] : [authorization]), '-H "Content-Type: application/json"']
  return `curl ${localUrl}/v1/chat/completions ${headers.join(' ')} -d ${shellWord(body)}`
}

function secretLines({ made, adminKey, joinToken }: ReadyFacts): string[] {
  const lines = [secretLine('Admin key', made.adminKey, adminKey), secretLine('Join token', made.joinToken, joinToken)].flat()
  return lines.length === 0 ? [] : ['', ...lines]
}

const secretLine = (heading: string, made: Secret | null, place: SecretLocation): string[] =>
  made === null
    ? []
    : [row([heading, `${made.reveal()}   (shown once${place !== null && 'file' in place ? `; kept in ${place.file}` : ''})`])]

function joinLines({ bus, url, localUrl, joinToken, given, commands }: ReadyFacts): string[] {
  const where = joinToken === null ? '' : ` (the token is in ${'file' in joinToken ? joinToken.file : joinToken.variable})`
  if (bus === 'nats') return [`To add a machine, run there: ${commands.program} join ${url} --token TOKEN${where}`]
  const here = new URL(localUrl)
  // An address that other machines can reach stays.
  const kept = given.filter(({ flag }) => flag !== 'host' || !isLoopback(here)).map(({ text }) => text)
  const host = isLoopback(here) ? ['--host 0.0.0.0'] : []
  return [
    'To add other machines, this one needs a NATS server that they can reach. The configuration of one that requires',
    `credentials is made by ${commands.write('`muster nats-config`')}. Start Muster again with`,
    `  ${[`${commands.program} up`, ...kept, ...host, '--nats-url nats://HOST:4222'].join(' ')}`,
    'and run on each of them',
    `  ${commands.program} join http://HOST:${here.port} --token TOKEN${where}`,
  ]
}
