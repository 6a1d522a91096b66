import { Secret } from '@muster/host'
import { describe, expect, it } from 'vitest'
import { createCommandWriter } from '../output/command-writer.ts'
import { type ReadyFacts, readyMessage } from './ready-message.ts'

const facts = (some: Partial<ReadyFacts> = {}): ReadyFacts => ({
  version: '0.1.0',
  url: 'http://127.0.0.1:8080',
  localUrl: 'http://127.0.0.1:8080',
  dataDir: '/data',
  loginLink: 'http://127.0.0.1:8080/login?token=t',
  workers: 1,
  bus: 'local',
  adminKey: { file: '/data/admin.key' },
  joinToken: { file: '/data/join.token' },
  made: { adminKey: null, joinToken: null },
  model: null,
  isOpen: true,
  given: [],
  commands: createCommandWriter({ env: {}, args: [] }),
  ...some,
})
const curlOf = (some: Partial<ReadyFacts>): string => /curl .*/.exec(readyMessage(facts(some)))?.[0] ?? ''

describe('readyMessage', () => {
  it('shows the login link, the API and the data', () => {
    const text = readyMessage(facts())
    for (const part of ['is running with 1 worker.', 'http://127.0.0.1:8080/login?token=t', '/data']) expect(text).toContain(part)
    expect(text).toMatch(/^ +API +http:\/\/127\.0\.0\.1:8080\/v1 .*no models yet/m)
    expect(text).toMatch(/^ +Admin API +http:\/\/127\.0\.0\.1:8080\/api .*muster keys create/m)
  })

  it.each<[string, Partial<ReadyFacts>, string]>([
    ['reads the key from its file', {}, 'curl -H "Authorization: Bearer $(cat /data/admin.key)" http://127.0.0.1:8080/api/nodes'],
    [
      'reads it from a file with blanks in its name',
      { adminKey: { file: '/my data/admin.key' } },
      'curl -H "Authorization: Bearer $(cat \'/my data/admin.key\')" http://127.0.0.1:8080/api/nodes',
    ],
    [
      'reads it from the environment',
      { adminKey: { variable: 'MUSTER_ADMIN_KEY' } },
      'curl -H "Authorization: Bearer $MUSTER_ADMIN_KEY" http://127.0.0.1:8080/api/nodes',
    ],
    [
      'asks a model, where there is one',
      { model: 'tiny' },
      `curl http://127.0.0.1:8080/v1/chat/completions -H "Content-Type: application/json" -d '{"model":"tiny","messages":[{"role":"user","content":"What is the capital of France?"}]}'`,
    ],
    [
      'asks it with the key, where one is needed',
      { model: 'tiny', isOpen: false },
      `curl http://127.0.0.1:8080/v1/chat/completions -H "Authorization: Bearer $(cat /data/admin.key)" -H "Content-Type: application/json" -d '{"model":"tiny","messages":[{"role":"user","content":"What is the capital of France?"}]}'`,
    ],
    ['needs none where there is none', { adminKey: null }, 'curl http://127.0.0.1:8080/version'],
    [
      'asks this machine, not the proxy in front of it',
      { url: 'https://muster.example', adminKey: null },
      'curl http://127.0.0.1:8080/version',
    ],
  ])('has a curl that %s', (_, some, want) => expect(curlOf(some)).toBe(want))

  it('shows the secrets of the first start, and none later', () => {
    const made = { adminKey: new Secret('muster_admin_x'), joinToken: new Secret('muster_join_x') }
    const first = readyMessage(facts({ made }))
    expect(first).toMatch(/Admin key +muster_admin_x .*shown once; kept in \/data\/admin.key/)
    expect(first).toMatch(/Join token +muster_join_x /)
    expect(readyMessage(facts())).not.toContain('shown once')
  })

  it('prints commands that work in a clone, with the data directory of this start', () => {
    const env = { npm_package_name: 'muster', npm_lifecycle_event: 'start' }
    const commands = createCommandWriter({ env, args: ['up', '--data-dir', '/d'] })
    const text = readyMessage(facts({ commands, given: [{ flag: 'data-dir', text: '--data-dir /d' }] }))
    for (const command of [
      'login-link --data-dir /d',
      'keys create --data-dir /d',
      'nats-config',
      'up --data-dir /d --host 0.0.0.0 --nats-url nats://HOST:4222',
      'join http://HOST:8080 --token TOKEN',
    ])
      expect(text).toContain(`npm run -s muster -- ${command}`)
    expect(text).not.toMatch(/(?<!npm run -s )muster [a-z]/)
  })

  it('prints the needs of other machines, by the bus', () => {
    expect(readyMessage(facts())).toContain('  muster up --host 0.0.0.0 --nats-url nats://HOST:4222\n')
    expect(readyMessage(facts())).toContain('muster nats-config')
    const onNats = readyMessage(facts({ bus: 'nats', url: 'https://muster.example' }))
    expect(onNats).toContain('muster join https://muster.example --token TOKEN (the token is in /data/join.token)')
    expect(onNats).not.toContain('nats://HOST')
  })

  it.each<[string, [flag: string, value: string][], string]>([
    [
      'where it is',
      [
        ['port', '9000'],
        ['data-dir', '/d'],
      ],
      'muster up --port 9000 --data-dir /d --host 0.0.0.0 --nats-url nats://HOST:4222',
    ],
    ['an address that others reach', [['host', '10.0.0.5']], 'muster up --host 10.0.0.5 --nats-url nats://HOST:4222'],
    [
      'but an address that they do not',
      [
        ['host', 'localhost'],
        ['workers', '2'],
      ],
      'muster up --workers 2 --host 0.0.0.0 --nats-url nats://HOST:4222',
    ],
  ])('suggests a start with the flags of this one: %s', (_, flags, want) => {
    const given = flags.map(([flag, value]) => ({ flag, text: `--${flag} ${value}` }))
    const localUrl = `http://${flags.find(([flag]) => flag === 'host')?.[1] ?? '127.0.0.1'}:8080`
    expect(readyMessage(facts({ given, localUrl }))).toContain(`  ${want}\n`)
  })
})
