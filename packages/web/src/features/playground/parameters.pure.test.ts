import { describe, expect, it } from 'vitest'
import { describeParameters, noParameters, readParameters, type ParameterForm, type Parameters } from './parameters.pure.ts'

const form = (changes: Partial<ParameterForm>): ParameterForm => ({ ...noParameters, ...changes })

describe('parameters', () => {
  it.each<[string, Partial<ParameterForm>, Parameters]>([
    ['empty fields are not sent', {}, {}],
    ['0 is not empty', { temperature: '0', seed: '0' }, { temperature: 0, seed: 0 }],
    ['accepts a decimal comma', { temperature: '0,7', topP: '.9' }, { temperature: 0.7, top_p: 0.9 }],
    ['ignores spaces', { maxTokens: ' 12 ' }, { max_tokens: 12 }],
    ['reads one stop sequence per line, with its spaces', { stop: '\n###\n User:\n' }, { stop: ['###', ' User:'] }],
    ['sends the system prompt as a message', { system: 'Be short.' }, {}],
  ])('%s', (_, given, want) => expect(readParameters(form(given))).toEqual({ parameters: want, errors: {} }))

  it.each<[Partial<ParameterForm>, keyof ParameterForm]>([
    [{ temperature: '3' }, 'temperature'],
    [{ temperature: '-0.1' }, 'temperature'],
    [{ temperature: 'warm' }, 'temperature'],
    [{ topP: '1.1' }, 'topP'],
    [{ maxTokens: '0' }, 'maxTokens'],
    [{ maxTokens: '1.5' }, 'maxTokens'],
    [{ seed: '1e3' }, 'seed'],
    [{ seed: '99999999999999999' }, 'seed'],
    [{ stop: 'a\nb\nc\nd\ne' }, 'stop'],
  ])('%j is invalid and not sent', (given, field) => {
    const { parameters, errors } = readParameters(form(given))
    expect(parameters).toEqual({})
    expect(Object.keys(errors)).toEqual([field])
  })

  it('have a short summary', () => {
    expect(describeParameters(noParameters)).toBe('')
    expect(describeParameters(form({ system: 'x', temperature: '0', stop: 'a\nb' }))).toBe('system prompt, temperature 0, stop ×2')
  })
})
