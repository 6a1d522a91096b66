import { type Failure, ModelGalleryEntry } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { toHttpError } from '../http/http-error.ts'
import { findEntry, type OfferedModels } from './model-catalogue.ts'
import { planOwn } from './plan-install.ts'

const away: Failure = { code: 'unavailable', retry: 'backoff', message: 'h.example answered 503' }
const broken: Failure = { code: 'invalid', retry: 'never', message: 'line 1: not a list' }
const offered = (problems: Readonly<Record<string, Failure>>): OfferedModels => ({
  order: ['builtin', 'first', 'second', 'third'],
  models: ['second', 'third'].flatMap((gallery) =>
    ['small', 'odd@small'].map((name) => ({
      gallery,
      url: `https://${gallery}.example`,
      entry: ModelGalleryEntry.parse({ name, description: gallery, config: { backend: gallery === 'second' ? 'llama' : 'other' } }),
    })),
  ),
  problems: Object.entries(problems).map(([gallery, failure]) => ({ gallery, failure })),
  leftOut: [{ gallery: 'second', count: 1, entries: [{ index: 4, name: 'damaged', message: 'overrides: expected a mapping' }] }],
})
function install(model: string, problems: Readonly<Record<string, Failure>>) {
  try {
    return planOwn(findEntry(offered(problems), model))
  } catch (error) {
    return toHttpError(error)
  }
}

describe('a model of a gallery', () => {
  it.each([{}, { third: away }, { third: broken }])('is found, whatever happens to later galleries: %j', (problems) => {
    expect(install('small', problems)).toMatchObject({ name: 'small', backend: 'llama' })
  })

  it.each([away, broken])('is not taken while a gallery before it cannot be read: %j', (failure) => {
    const refusal = install('small', { first: failure })
    expect(refusal).toMatchObject({ status: 503, code: 'source_unavailable' })
    expect(refusal).toMatchObject({
      message: expect.stringMatching(/first comes before second.*small.*remove it, or install second@small/) as string,
    })
    expect(refusal).toMatchObject({ message: expect.stringContaining(failure.message) as string })
  })

  it('is taken from the gallery that the request names, whatever happens to the others', () => {
    expect(install('third@small', {})).toMatchObject({ name: 'small', backend: 'other' })
    expect(install('third@small', { first: away, builtin: broken })).toMatchObject({ name: 'small', backend: 'other' })
    expect(install('odd@small', {})).toMatchObject({ name: 'odd@small', backend: 'llama' })
    expect(install('third@odd@small', {})).toMatchObject({ name: 'odd@small', backend: 'other' })
  })

  it.each(['SMALL', 'Odd@Small', 'third@SMALL'])('is found without regard to case: %s', (name) => {
    expect(install(name, {})).toMatchObject({ name: expect.stringMatching(/small$/) as string })
  })

  it('that is left out is refused with the reason', () => {
    const message = expect.stringContaining('its entry in second cannot be read: overrides: expected a mapping') as string
    expect(install('damaged', {})).toMatchObject({ status: 404, message })
    expect(install('second@damaged', {})).toMatchObject({ status: 404, message })
  })

  it('is not looked for in other galleries than the one that the request names', () => {
    expect(install('first@small', {})).toMatchObject({ status: 404, message: expect.stringContaining('first does not offer') as string })
    expect(install('first@small', { first: away })).toMatchObject({ status: 503, message: expect.stringContaining('503') as string })
    expect(install('nobody@small', {})).toMatchObject({ status: 404, message: expect.stringContaining('nobody@small') as string })
  })

  it('is unknown only if no gallery may be readable later', () => {
    expect(install('large', {})).toMatchObject({ status: 404, code: 'not_found' })
    expect(install('large', { first: broken })).toMatchObject({ status: 404, message: expect.stringContaining('first (') as string })
    expect(install('large', { third: away })).toMatchObject({ status: 503, code: 'source_unavailable' })
  })
})
