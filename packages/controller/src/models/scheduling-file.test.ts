import { SettingsError } from '@muster/host'
import { describe, expect, it } from 'vitest'
import { parseSchedulingRules } from './scheduling-file.ts'

const parse = (text: string) => parseSchedulingRules(text, 'rules.yaml')

describe('scheduling rules', () => {
  it.each<[string, string, object]>([
    ['an empty list', '[]', []],
    [
      'Muster names',
      '- { model: a, min_replicas: 1, max_replicas: 2, priority: 3, policy: least }',
      [{ model: 'a', scheduling: { min_replicas: 1, max_replicas: 2, priority: 3, policy: 'least' } }],
    ],
    [
      'a selector',
      '- model: a\n  node_selector: { gpu.vendor: [nvidia, amd], old: "!" }',
      [{ scheduling: { node_selector: { 'gpu.vendor': ['nvidia', 'amd'], old: '!' } } }],
    ],
    [
      'LocalAI names in JSON with tabs',
      '[\n\t{"model_name": "a/b", "node_selector": {"tier": "fast"}, "replicas": "all"}\n]',
      [{ model: 'a/b', scheduling: { node_selector: { tier: 'fast' }, replicas: 'all' } }],
    ],
    [
      'a row of LocalAI',
      '- { id: 7, model_name: a, node_selector: "{\\"tier\\":\\"fast\\"}", min_replicas: 0, max_replicas: 0, spread_all: true, route_policy: prefix_cache }',
      [{ scheduling: { node_selector: { tier: 'fast' }, replicas: 'all', policy: 'prefix' } }],
    ],
    ['another route policy', '- { model: a, route_policy: round_robin }', [{ scheduling: { policy: 'least' } }]],
    ['empty values', '- { model: a, node_selector: "", route_policy: "", priority: null, spread_all: false }', [{ scheduling: {} }]],
  ])('%s', (_, text, want) => {
    expect(parse(text).rules).toMatchObject(want)
  })

  it('name the keys that have no effect, with their line', () => {
    expect(parse('- model: a\n  balance_abs_threshold: 2\n- { model: b, route_policy: random }').notes).toEqual([
      expect.stringMatching(/^rules\.yaml:1: balance_abs_threshold has no effect: /),
      'rules.yaml:3: route_policy "random" becomes policy: least, the least busy replica',
    ])
  })

  it.each<[string, string, string]>([
    ['no YAML', '- model: "a', 'rules.yaml: line 1: '],
    ['no list', 'model: a', 'the rules are a list'],
    ['no mapping', '- a', 'rules.yaml:1: a rule is a mapping'],
    ['no model', '- model: a\n- priority: 1', 'rules.yaml:2: model is missing or not a name'],
    ['a bad name', '- model: ../a', 'rules.yaml:1: model is missing or not a name'],
    ['two names', '- model: a\n  model_name: b', 'rules.yaml:2: model_name: it says the same as model'],
    ['an unknown key', '- model: a\n  min_replica: 1', 'rules.yaml:2: min_replica: unknown key; the closest known key is min_replicas'],
    ['a wrong value', '- model: a\n  priority: high', 'rules.yaml:2: priority: '],
    [
      'a minimum above the maximum',
      '- { model: a, min_replicas: 3, max_replicas: 2 }',
      'rules.yaml:1: min_replicas is greater than max_replicas',
    ],
    ['all and a minimum', '- { model: a, replicas: all, min_replicas: 1 }', 'rules.yaml:1: replicas: all excludes'],
    ['a model twice', '- model: a\n- model: b\n- model: a', 'rules.yaml:3: a has a rule already'],
    ['a selector that is no mapping', '- model: a\n  node_selector: "{"', 'rules.yaml:2: node_selector: it is neither'],
  ])('are refused with the line: %s', (_, text, message) => {
    expect(() => parse(text)).toThrow(message)
    expect(() => parse(text)).toThrow(SettingsError)
  })
})
