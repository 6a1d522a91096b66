import { resolveSettings } from '@muster/host'
import { expect, it } from 'vitest'
import { controllerSettings } from './settings.ts'

const natsUrl = (url: string): string => resolveSettings(controllerSettings, { flags: { 'nats-url': url }, env: {} }).natsUrl

it.each(['nats://h:4222', 'nats://u:p@ss@h, tls://i', 'h:4222'])('takes %s for NATS servers', (url) => expect(natsUrl(url)).toBe(url))

it.each(['http://h', 'nats://u:sec/ret@h', 'nats://'])('refuses %s for NATS servers, without repeating it', (url) => {
  expect(() => natsUrl(url)).toThrow(/looks like nats:\/\/host:4222/)
  expect(() => natsUrl(url)).not.toThrow(/sec|ret@/)
})
