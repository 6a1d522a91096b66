import { describe, expect, it } from 'vitest'
import { ModelName } from './ids.ts'

describe('the name of a model', () => {
  it.each(['tiny', 'gemma-4-e2b-it:sglang-mtp', 'org/name@v1+x_y.z', 'voice-pt_PT-tug\u00e3o-medium', '模型-七', 'हिन्दी', 'ß', '٣'])(
    'may be %s',
    (name) => expect(ModelName.safeParse(name).success).toBe(true),
  )

  it.each<[string, string, string]>([
    ['nothing', '', '1–200'],
    ['a space', 'a b', '1–200'],
    ['a control character', 'a\u0085b', '1–200'],
    ['an invisible character', 'a\u200bb', '1–200'],
    ['a character that turns the text around', 'a\u202eb', '1–200'],
    ['an emoji', 'a😀', '1–200'],
    ['half a character', 'a\ud800', '1–200'],
    ['a mark at the beginning', '\u0301a', '1–200'],
    ['a percent sign', 'a%2Fb', '1–200'],
    ['a way up', 'a/../b', '1–200'],
    ['an empty part', 'a//b', '1–200'],
    ['a leading slash', '/a', '1–200'],
    ['too many letters', 'ã'.repeat(201), '1–200'],
    ['another form of the same letters', 'tuga\u0303o', 'normal form NFC'],
  ])('is refused with %s', (_, name, message) => expect(ModelName.safeParse(name).error?.issues[0]?.message).toContain(message))
})
