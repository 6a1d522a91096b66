// Decides about changes of settings while controllers run: which settings can change, where a setting is pinned, and which rows
// a request changes.

/** Texts by flag. A missing flag has the default of each controller. */
export type StoredSettings = ReadonlyMap<string, string>

/** A controller whose command line, environment or file sets a setting: an administrator cannot change it elsewhere. */
export type SettingPin = Readonly<{ flag: string; controller: string; from: string }>

/** A requested value as people write it; null: back to the default. */
export type SettingRequest = Readonly<{ flag: string; value: string | null }>

export type SettingChange = Readonly<{ flag: string; before: string | null; after: string | null }>

export type ChangeDecision =
  | Readonly<{ outcome: 'ok'; changes: readonly SettingChange[] }>
  | Readonly<{ outcome: 'unknown'; message: string; flag: string }>
  | Readonly<{ outcome: 'fixed' | 'invalid' | 'pinned'; message: string }>

export interface ChangeFacts {
  readonly requests: readonly SettingRequest[]
  readonly stored: StoredSettings
  readonly pins: readonly SettingPin[]
  /** Settings that can change at run time: the problem of a text, or its usual form. */
  readonly runtime: ReadonlyMap<string, (text: string) => Readonly<{ problem: string } | { text: string }>>
  /** All settings of a controller. */
  readonly flags: readonly string[]
  readonly closestWord: (word: string, known: Iterable<string>) => string | null
}

/** All or nothing: the first problem refuses the whole request. */
export function decideChanges({ requests, stored, pins, runtime, flags, closestWord }: ChangeFacts): ChangeDecision {
  const changes: SettingChange[] = []
  for (const { flag, value } of requests) {
    const parse = runtime.get(flag)
    if (parse === undefined) return refuseName(flag, { runtime, flags, closestWord })
    const pin = pins.find((each) => each.flag === flag)
    if (pin !== undefined)
      return {
        outcome: 'pinned',
        message: `--${flag} is set by ${pin.from} of the controller ${pin.controller}; change it there, or remove it there first`,
      }
    const parsed = value === null ? { text: null } : parse(value)
    if ('problem' in parsed) return { outcome: 'invalid', message: `${flag}: ${parsed.problem}` }
    const before = stored.get(flag) ?? null
    if (before !== parsed.text) changes.push({ flag, before, after: parsed.text })
  }
  return { outcome: 'ok', changes }
}

function refuseName(flag: string, { runtime, flags, closestWord }: Pick<ChangeFacts, 'runtime' | 'flags' | 'closestWord'>): ChangeDecision {
  if (flags.includes(flag))
    return {
      outcome: 'fixed',
      message: `--${flag} is read at the start of a controller and cannot change while it runs: set it there and restart`,
    }
  const closest = closestWord(flag, runtime.keys()) ?? 'none'
  return { outcome: 'unknown', message: `unknown field ${JSON.stringify(flag)}; the closest known field is ${closest}`, flag }
}

export function applyChanges(stored: StoredSettings, changes: readonly SettingChange[]): StoredSettings {
  const after = new Map(stored)
  for (const { flag, after: value } of changes) {
    if (value === null) after.delete(flag)
    else after.set(flag, value)
  }
  return after
}
